"""A database with the shop in it, made for one measurement and dropped afterwards."""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from evals.shop.load import load_shop, make_analyst
from evals.shop.rows import the_shop
from walagent.embedded.server import EmbeddedServer
from walagent.store.errors import translating
from walagent.store.install.migrate import migrate
from walagent.store.sessions.connections import connect


@dataclass(frozen=True, slots=True)
class Place:
    """Where the shop is, and who may read it."""

    dsn: str = field(repr=False)
    role: str
    version: str


@asynccontextmanager
async def place_for_a_shop(dsn: str | None) -> AsyncGenerator[Place]:
    """Make a migrated database on the server of *dsn*; without one, on an embedded one of its own.

    Raises:
        PreconditionError: the login may not make databases and roles, or no server can be had.
    """
    if dsn is not None:
        async with _database(dsn) as place:
            yield place
        return
    with tempfile.TemporaryDirectory(prefix="walagent-eval-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedServer(Path(folder) / "pg")
        await server.start()
        try:
            async with _database(server.dsn()) as place:
                yield place
        finally:
            await server.stop()


@asynccontextmanager
async def _database(dsn: str) -> AsyncGenerator[Place]:
    name = f"walagent_eval_{uuid4().hex[:8]}"
    database = sql.Identifier(name)
    with translating():
        async with await connect(dsn, application="walagent eval") as admin:
            await admin.execute(sql.SQL("create database {}").format(database))
            version = str(admin.info.parameter_status("server_version") or "").partition(" ")[0]
            place = Place(make_conninfo(dsn, dbname=name), name, version)
            try:
                async with await connect(place.dsn, application="walagent eval") as conn:
                    await migrate(conn)
                yield place
            finally:
                await admin.execute(sql.SQL("drop database {} with (force)").format(database))
                await admin.execute(sql.SQL("drop role if exists {}").format(database))


async def fill(place: Place) -> None:
    """Put the shop into it, and make the analyst."""
    with translating():
        async with await connect(place.dsn, application="walagent eval") as conn:
            await conn.execute("set search_path = public")  # the database is ours alone
            await load_shop(conn)
            await make_analyst(conn, place.role)


async def fingerprint(conn: AsyncConnection[Any]) -> list[tuple[object, ...]]:
    """Give what changes when any row of the shop does."""
    found: list[tuple[object, ...]] = []
    for name, _ in the_shop().tables():
        asked = sql.SQL("select count(*), sum(hashtextextended(t::text, 0)) from {} as t")
        found += await (await conn.execute(asked.format(sql.Identifier("public", name)))).fetchall()
    return found
