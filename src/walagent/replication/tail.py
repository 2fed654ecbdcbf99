"""Print changes as they are committed, without ingesting them.

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
class TailOptions:
    """What to print.

    Args:
        own_slot: whether the slot is created for this stream and dropped with it.
    """

    options: StreamOptions
    own_slot: bool = True
    marks: bool = False  # also print begins, commits and messages
    ours: bool = False  # also print changes of walagent's tables


@asynccontextmanager
async def open_tail(dsn: str, tail: TailOptions) -> AsyncGenerator[AsyncIterator[bytes]]:
    """Open the stream; return an endless iterator of lines, one for each change.

    Creating a slot waits for open transactions.

    Args:
        dsn: of a login with REPLICATION.

    Raises:
        StreamLostError: the connection is lost.
        SlotBusyError: the slot is in use.
        GapError, PreconditionError: the slot or the server does not meet the requirements.
    """
    async with _stream(dsn, tail) as stream:
        yield _written(stream, tail)


async def _written(stream: ReplicationStream, tail: TailOptions) -> AsyncIterator[bytes]:
    async for item in stream:
        for line in _lines(item, tail):
            yield line
        if tail.own_slot and isinstance(item, Commit):
            stream.confirm(item.end_lsn)  # so that the server retains no WAL for this slot
        elif tail.own_slot and isinstance(item, Idle):
            stream.confirm(item.wal_end)


def temporary_name() -> str:
    """Return a unique name for a slot."""
    return f"walagent_tail_{os.getpid()}_{os.urandom(3).hex()}"


@asynccontextmanager
async def _stream(dsn: str, tail: TailOptions) -> AsyncGenerator[ReplicationStream]:
    if not tail.own_slot:
        async with open_stream(dsn, tail.options) as stream:
            yield stream
        return
    options = tail.options
    conn = await connect_replication(
        dsn,
        application_name=options.application_name,
        sender_timeout=options.sender_timeout,
        stall_timeout=options.stall_timeout,
    )
    try:
        await _make_slot(conn, options)
        transactions = await prepare_transactions(conn, options, lambda _: True)
        transport = await start_replication(conn, options)
        stream = ReplicationStream(transport, options, transactions)
        try:
            yield stream
        finally:
            await stream.close()
    finally:
        await conn.close()


async def _make_slot(conn: AsyncConnection, options: StreamOptions) -> None:
    """Create a slot that ends with the connection; the server waits for open transactions."""
    slot = quote_name(options.slot)
    command = f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL {options.plugin} NOEXPORT_SNAPSHOT"
    try:
        await conn.execute(command.encode())
    except Error as error:
        raise refused(error, options.slot) from error


def _lines(item: Item, tail: TailOptions) -> Iterator[bytes]:
    match item:
        case Piece(changes):
            yield from (format_change(c) for c in changes if tail.ours or not _is_ours(c))
        case Begin() if tail.marks:
            yield format_begin(item)
        case Commit() if tail.marks:
            yield format_commit(item)
        case OriginMarker() if tail.marks:
            yield format_marker(item)
        case _:
            pass


def _is_ours(change: Change) -> bool:
    return change.relation.schema in {"agent", "agent_internal"}
