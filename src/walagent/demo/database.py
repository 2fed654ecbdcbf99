"""Open the demo's database on the embedded server, for one demo at a time."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from walagent.config import Embedded
from walagent.config.dsn import open_places
from walagent.errors import DatabaseLostError, PreconditionError
from walagent.store.connections import connect
from walagent.store.errors import translating

Connection = AsyncConnection[Any]

DATABASE = "demo"
SLOT = "walagent_demo"  # slots belong to the whole server, and `walagent run` has its own

_LOCK = 0x64656D6F  # "demo"
_PATIENCE = 6.0  # seconds; the server frees the slot of a dead reader within 4

_HOLDER = """
select a.application_name
  from pg_locks l join pg_stat_activity a using (pid)
 where l.locktype = 'advisory' and l.objid = %s and l.granted
"""
_READERS = """
select a.application_name || ', process ' || a.pid
  from pg_replication_slots s left join pg_stat_activity a on a.pid = s.active_pid
 where s.database = %s and s.active
"""
_DROP_SLOTS = (
    "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s"
)


@asynccontextmanager
async def open_database(embedded: Embedded, *, keep: bool) -> AsyncGenerator[str]:
    """Start or join the embedded server, and yield the connection string of the demo's database.

    Args:
        keep: keep the database of the last demo, if there is one.

    Raises:
        PreconditionError: the server cannot run here, or another process uses the database.
    """
    async with AsyncExitStack() as stack:
        try:
            dsn = await _enter(stack, embedded, keep=keep)
        except DatabaseLostError:  # the server's owner was just shutting it down
            await stack.aclose()
            dsn = await _enter(stack, embedded, keep=keep)
        yield make_conninfo(dsn, dbname=DATABASE)


async def _enter(stack: AsyncExitStack, embedded: Embedded, *, keep: bool) -> str:
    """Do the work of `open_database`; *stack* closes it.  Return the server's connection string."""
    places = await stack.enter_async_context(open_places(None, embedded, create=True))
    application = f"walagent demo of process {os.getpid()}"
    conn = await stack.enter_async_context(await connect(places.dsn, application=application))
    with translating():
        await _be_the_only_one(conn)
        await _make_database(conn, keep=keep)
    return places.dsn


async def _be_the_only_one(conn: Connection) -> None:
    """Acquire the lock of demos on this server; it is released with the connection."""
    if await _value(conn, "select pg_try_advisory_lock(%s)", _LOCK):
        return
    holder = await _value(conn, _HOLDER, _LOCK)
    raise PreconditionError(
        f"another demo is running: {holder}",
        hint="Wait for its end, or use another folder: WALAGENT_HOME=… walagent demo",
    )


async def _make_database(conn: Connection, *, keep: bool) -> None:
    exists = await _value(conn, "select count(*) from pg_database where datname = %s", DATABASE)
    if keep and exists:
        return
    await _wait_for_readers(conn)
    await conn.execute(_DROP_SLOTS, [DATABASE])
    await conn.execute(f"drop database if exists {DATABASE} with (force)")
    await conn.execute(f"create database {DATABASE}")


async def _wait_for_readers(conn: Connection) -> None:
    """Wait until the old database's slots are inactive.

    Raises:
        PreconditionError: a reader stays active.
    """
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while reader := await _value(conn, _READERS, DATABASE):
        if asyncio.get_running_loop().time() > deadline:
            raise PreconditionError(
                f"the last demo's database is in use: {reader} reads its WAL",
                hint="End that process, or keep the database: walagent demo --keep",
            )
        await asyncio.sleep(0.1)


async def _value(conn: Connection, statement: Any, *parameters: object) -> Any:  # noqa: ANN401 - SQL's
    row = await (await conn.execute(statement, parameters)).fetchone()
    return row[0] if row else None
