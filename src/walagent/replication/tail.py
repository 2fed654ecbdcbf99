"""Changes as they are committed, for whoever wants to watch: nothing is ingested or confirmed.

own temporary slot → stream → lines of wal2json's format 2
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from psycopg import AsyncConnection, Error

from walagent.change import Begin, Change, Commit, Idle, Item, OriginMarker, Piece
from walagent.wal.connection import connect_replication, start_replication
from walagent.wal.options import StreamOptions, quote_name
from walagent.wal.refusals import refused
from walagent.wal.stream import ReplicationStream, open_stream, prepare_transactions
from walagent.wal.wal2json_text import format_begin, format_change, format_commit, format_marker


@dataclass(frozen=True, slots=True)
class Watch:
    """What is to be watched.

    `own_slot`: whether `options.slot` is to be made for this watch, and gone with it.
    """

    options: StreamOptions
    own_slot: bool = True
    marks: bool = False  # also lines for where transactions begin and end, and for messages
    ours: bool = False  # also changes of walagent's own tables


@asynccontextmanager
async def open_tail(dsn: str, watch: Watch) -> AsyncGenerator[AsyncIterator[bytes]]:
    """Begin to watch; give an endless iterator of lines, one for each change.

    Making a slot waits for the transactions that are open now.

    Args:
        dsn: of a login that may replicate.

    Raises:
        StreamLostError: the connection is gone.
        SlotBusyError: somebody reads the slot.
        GapError, PreconditionError: the slot or the server is not fit for it.
    """
    async with _stream(dsn, watch) as stream:
        yield _written(stream, watch)


async def _written(stream: ReplicationStream, watch: Watch) -> AsyncIterator[bytes]:
    async for item in stream:
        for line in _lines(item, watch):
            yield line
        if watch.own_slot and isinstance(item, Commit):
            stream.confirm(item.end_lsn)  # so that the server keeps no WAL for us
        elif watch.own_slot and isinstance(item, Idle):
            stream.confirm(item.wal_end)


def temporary_name() -> str:
    """Name a slot that nobody else has."""
    return f"walagent_tail_{os.getpid()}_{os.urandom(3).hex()}"


@asynccontextmanager
async def _stream(dsn: str, watch: Watch) -> AsyncGenerator[ReplicationStream]:
    if not watch.own_slot:
        async with open_stream(dsn, watch.options) as stream:
            yield stream
        return
    options = watch.options
    conn = await connect_replication(
        dsn, application_name=options.application_name, sender_timeout=options.sender_timeout
    )
    try:
        await _make_slot(conn, options)
        transactions = await prepare_transactions(conn, options, lambda _: True)
        await start_replication(conn, options)
        stream = ReplicationStream(conn, options, transactions)
        try:
            yield stream
        finally:
            await stream.close()
    finally:
        await conn.close()


async def _make_slot(conn: AsyncConnection, options: StreamOptions) -> None:
    """Make a slot that ends with the connection; the server waits for open transactions."""
    slot = quote_name(options.slot)
    command = f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL {options.plugin} NOEXPORT_SNAPSHOT"
    try:
        await conn.execute(command.encode())
    except Error as error:
        raise refused(error, options.slot) from error


def _lines(item: Item, watch: Watch) -> Iterator[bytes]:
    match item:
        case Piece(changes):
            yield from (format_change(c) for c in changes if watch.ours or not _is_ours(c))
        case Begin() if watch.marks:
            yield format_begin(item)
        case Commit() if watch.marks:
            yield format_commit(item)
        case OriginMarker() if watch.marks:
            yield format_marker(item)
        case _:
            pass


def _is_ours(change: Change) -> bool:
    return change.relation.schema in {"agent", "agent_internal"}
