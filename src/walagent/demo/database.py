"""Open the demo's database on the embedded server, for one demo at a time."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from walagent.config import Embedded
from walagent.config.dsn import open_places
from walagent.errors import DatabaseLostError, PreconditionError
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect

Connection = AsyncConnection[Any]

DATABASE = "demo"
SLOT = "walagent_demo"  # slots belong to the whole server, and `walagent run` has its own

_NEXT = "demo_next"  # the new database until it is prepared
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


# Prepares the database that a connection string names.
Prepare = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def open_database(embedded: Embedded, prepare: Prepare, *, keep: bool) -> AsyncGenerator[str]:
    """Start or join the embedded server, and yield the connection string of the demo's database.

    A new database replaces that of the last demo when it is prepared: if it cannot be, such as
    without a key, the old one stays.

    Args:
        keep: keep the database of the last demo, if there is one.

    Raises:
        PreconditionError: the server cannot run here, or another process uses the database.
    """
    async with AsyncExitStack() as stack:
        try:
            conn, dsn = await _enter(stack, embedded)
        except DatabaseLostError:  # the server's owner was just shutting it down
            await stack.aclose()
            conn, dsn = await _enter(stack, embedded)
        with translating():
            await _make_database(conn, dsn, prepare, keep=keep)
        yield make_conninfo(dsn, dbname=DATABASE)


async def _enter(stack: AsyncExitStack, embedded: Embedded) -> tuple[Connection, str]:
    """Open the server for this demo alone; *stack* closes it."""
    places = await stack.enter_async_context(open_places(None, embedded, create=True))
    application = f"walagent demo of process {os.getpid()}"
    conn = await stack.enter_async_context(await connect(places.dsn, application=application))
    with translating():
        await _be_the_only_one(conn)
    return conn, places.dsn


async def _be_the_only_one(conn: Connection) -> None:
    """Acquire the lock of demos on this server; it is released with the connection."""
    if await _value(conn, "select pg_try_advisory_lock(%s)", _LOCK):
        return
    holder = await _value(conn, _HOLDER, _LOCK)
    raise PreconditionError(
        f"another demo is running: {holder}",
        hint="Wait for its end, or use another folder: WALAGENT_HOME=… walagent demo",
    )


async def _make_database(conn: Connection, dsn: str, prepare: Prepare, *, keep: bool) -> None:
    exists = await _value(conn, "select count(*) from pg_database where datname = %s", DATABASE)
    if keep and exists:
        await prepare(make_conninfo(dsn, dbname=DATABASE))
        return
    await _wait_for_readers(conn)
    await _drop(conn, _NEXT)
    await conn.execute(f"create database {_NEXT}")
    try:
        await prepare(make_conninfo(dsn, dbname=_NEXT))
    except BaseException:
        await _drop(conn, _NEXT)
        raise
    await drop_demo(conn)
    await conn.execute(f"alter database {_NEXT} rename to {DATABASE}")


async def drop_demo(conn: Connection) -> None:
    """Drop the demo's database and its slots."""
    await conn.execute(_DROP_SLOTS, [DATABASE])
    await _drop(conn, DATABASE)


async def _drop(conn: Connection, name: str) -> None:
    statement = sql.SQL("drop database if exists {} with (force)")
    await conn.execute(statement.format(sql.Identifier(name)))


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
