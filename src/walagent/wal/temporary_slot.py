"""Stream from a temporary slot, which ends with its connection: nothing retains WAL after it.

Source: PostgreSQL docs, 55.4 Streaming Replication Protocol, CREATE_REPLICATION_SLOT.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, Error
from psycopg.errors import DuplicateObject

from walagent.errors import SlotBusyError
from walagent.postgres.connection import OWN_PATH, open_connection
from walagent.postgres.quoting import quote_name
from walagent.wal.connection import connect_replication, start_replication
from walagent.wal.options import StreamOptions
from walagent.wal.refusals import refused
from walagent.wal.slots import Blocker, watch_creation
from walagent.wal.stream import ReplicationStream, prepare_transactions


def temporary_name(purpose: str) -> str:
    """Return a unique name for a slot."""
    return f"walagent_{purpose}_{os.getpid()}_{os.urandom(3).hex()}"


@asynccontextmanager
async def open_temporary_stream(
    dsn: str,
    options: StreamOptions,
    waiting: Callable[[Sequence[Blocker]], None] = lambda _: None,
) -> AsyncGenerator[ReplicationStream]:
    """Create the slot `options.slot` and stream from it what is committed after this returns.

    The server waits for every open transaction that has written.  Meanwhile *waiting* is called
    with these transactions about twice a second.

    Raises:
        StreamLostError: the server cannot be reached; retry.
        SlotBusyError: a slot of this name exists.
        PreconditionError: the server or the role is not configured for replication.
    """
    conn = await connect_replication(
        dsn,
        application_name=options.application_name,
        sender_timeout=options.sender_timeout,
        stall_timeout=options.stall_timeout,
    )
    try:
        await _make_slot(dsn, conn, options, waiting)
        transactions = await prepare_transactions(conn, options, lambda _: True)
        transport = await start_replication(conn, options)
        stream = ReplicationStream(transport, options, transactions)
        try:
            yield stream
        finally:
            await stream.close()
    finally:
        await conn.close()


async def _make_slot(
    dsn: str,
    conn: AsyncConnection[Any],
    options: StreamOptions,
    waiting: Callable[[Sequence[Blocker]], None],
) -> None:
    slot = quote_name(options.slot)
    command = f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL {options.plugin} NOEXPORT_SNAPSHOT"
    async with await open_connection(
        AsyncConnection[Any], dsn, options.application_name, OWN_PATH
    ) as watcher:
        making = asyncio.create_task(_execute(conn, command), name=f"create slot {options.slot}")
        try:
            await watch_creation(making, watcher, conn.info.backend_pid, waiting)
            await making
        except DuplicateObject as error:
            raise SlotBusyError(f'slot "{options.slot}" exists already') from error
        except Error as error:
            raise refused(error, options.slot) from error
        finally:
            if not making.done():
                await conn.cancel_safe()
                await asyncio.wait({making})


async def _execute(conn: AsyncConnection[Any], command: str) -> None:
    await conn.execute(command.encode())
