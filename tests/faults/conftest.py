"""Fixtures for what is killed: a database as `walagent init` makes it, and this test's chance."""

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from tests.faults.rig.stage import Place
from walagent.app.migrating import migrate


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if "tests/faults/" in item.path.as_posix():
            item.add_marker("faults")


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """A database that the daemon accepts: its migrations are on record."""
    name = f"walagent_migrated_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        asyncio.run(_migrate(make_conninfo(server, dbname=name)))
        yield name
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


async def _migrate(dsn: str) -> None:
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        await migrate(conn)


@pytest.fixture
def place(conn: AsyncConnection, dsn: str, tmp_path: Path) -> Place:
    """This test's own database; the slot is named after it, for slots belong to the server."""
    return Place(conn, dsn, conn.info.dbname, tmp_path)


@pytest.fixture
def chance() -> random.Random:
    """The randomness of a test: the same again with WALAGENT_FAULT_SEED set to what is printed."""
    seed = int(os.environ.get("WALAGENT_FAULT_SEED") or random.randrange(2**32))
    print(f"WALAGENT_FAULT_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(seed)
