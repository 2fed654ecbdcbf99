"""One shop for all tests here: they only read it, and each question has a run of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from evals.shop.load import load_shop, make_analyst
from walagent.ask.answering import become
from walagent.guard.query import Guard
from walagent.guard.role import check_role
from walagent.store.sessions.connections import connect


@dataclass(frozen=True)
class Stage:
    """The database with the shop, and the role that may read it."""

    dsn: str
    role: str
    rows: int


@pytest.fixture(scope="session")
def shop(server: str, template: str) -> Iterator[Stage]:
    """A migrated database with the shop in it."""
    name = f"walagent_shop_{uuid4().hex[:8]}"
    database, role = sql.Identifier(name), sql.Identifier(name)
    with psycopg.connect(server, autocommit=True) as admin:
        make = sql.SQL("create database {} template {}")
        admin.execute(make.format(database, sql.Identifier(template)))
        dsn = make_conninfo(server, dbname=name)
        try:
            yield Stage(dsn, name, asyncio.run(_fill(dsn, name)))
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(database))
            admin.execute(sql.SQL("drop role if exists {}").format(role))


async def _fill(dsn: str, role: str) -> int:
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        loaded = await load_shop(conn)
        await make_analyst(conn, role)
        return loaded


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guard(shop: Stage) -> AsyncIterator[Guard]:
    """The guard, with the analyst's rights; for tests in the module's loop."""
    async with await connect(shop.dsn) as conn:
        await become(conn, shop.role)
        await check_role(conn)
        yield Guard(conn)
