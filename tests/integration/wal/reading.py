"""Slots, publications and reading to a mark, for the tests of the stream."""

import asyncio
from collections.abc import Iterable

from psycopg import AsyncConnection

from walagent.domain.change import Change, Commit, Idle, Item, Piece
from walagent.postgres.lsn import Lsn
from walagent.wal.options import StreamOptions
from walagent.wal.slots import create_slot
from walagent.wal.stream import ReplicationStream, open_stream

DEADLINE = 30.0  # seconds for what takes well under one
FREE = "select not active from pg_replication_slots where slot_name = %s"


async def follow(
    conn: AsyncConnection, dsn: str, *tables: str, plugin: str = "pgoutput", slot: str = ""
) -> StreamOptions:
    """Publish tables and make a slot; both are named after the database, as slots are global."""
    name = slot or f"{conn.info.dbname}_{plugin}"
    options = StreamOptions(name, publications=("pub",))
    if plugin == "wal2json":
        names = tuple(("public", table.strip('"')) for table in tables)
        options = StreamOptions(name, "wal2json", tables=names)
    else:
        listed = ", ".join(tables)
        await conn.execute(f"create publication pub for table {listed}".encode())
    await create_slot(dsn, name, options.plugin, publications=options.publications)
    return options


async def wal_end(conn: AsyncConnection) -> Lsn:
    """Where the WAL ends now."""
    row = await (await conn.execute("select pg_current_wal_lsn()::text")).fetchone()
    assert row is not None
    return Lsn.parse(row[0])


async def confirmed(conn: AsyncConnection, slot: str) -> Lsn:
    """How far the server thinks that we are."""
    query = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
    row = await (await conn.execute(query, [slot])).fetchone()
    assert row is not None
    return Lsn.parse(row[0])


async def read_to(stream: ReplicationStream, end: Lsn) -> list[Item]:
    """Everything up to *end*, without the idle marks."""
    items = list[Item]()
    async with asyncio.timeout(DEADLINE):
        while True:
            for item in await stream.next_batch():
                if not isinstance(item, Idle):
                    items.append(item)
                if reaches(item, end):
                    return items


def reaches(item: Item, end: Lsn) -> bool:
    """Whether everything up to *end* has come.

    The WAL may end with records that are no commit; then only an idle mark gets there.
    """
    match item:
        case Commit(_, lsn) | Idle(lsn, _):
            return lsn >= end
        case _:
            return False


async def read_all(
    conn: AsyncConnection, dsn: str, options: StreamOptions, *, confirm: bool = False
) -> list[Item]:
    """Everything that is there now, through a stream of its own."""
    end = await wal_end(conn)
    await until(conn, FREE, options.slot)  # gone for us, a reader may not be for the server yet
    async with open_stream(dsn, options) as stream:
        items = await read_to(stream, end)
        if confirm:
            stream.confirm(end)
        return items


async def read_changes(conn: AsyncConnection, dsn: str, options: StreamOptions) -> list[Change]:
    """The changes among it."""
    return changes(await read_all(conn, dsn, options))


def changes(items: Iterable[Item]) -> list[Change]:
    """The changes of some items."""
    return [change for item in items if isinstance(item, Piece) for change in item.changes]


async def until(conn: AsyncConnection, query: str, *parameters: object) -> None:
    """Wait until *query* gives true."""
    async with asyncio.timeout(DEADLINE):
        while True:
            row = await (await conn.execute(query.encode(), parameters)).fetchone()
            if row is not None and row[0]:
                return
            await asyncio.sleep(0.02)
