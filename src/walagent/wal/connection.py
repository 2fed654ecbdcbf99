"""Open the replication connection and start the stream."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection, Error

from walagent.errors import StreamLostError
from walagent.postgres.connection import OWN_PATH, TEXT_FORMS, open_connection
from walagent.wal.options import READER, StreamOptions, start_command
from walagent.wal.refusals import refused
from walagent.wal.synchronous import refuse_synchronous
from walagent.wal.transport import Transport, start_copy

# The walsender formats values with the settings of its session.  With this search path, names
# inside values (regclass) include their schema.
_SETTINGS: Final = {**TEXT_FORMS, "quote_all_identifiers": "off", **OWN_PATH}
_ANSWER: Final = 20.0  # seconds; psycopg can take ten more to give up
# Seconds after the stall timeout at which the kernel closes the connection of a frozen reader; a
# running reader releases the slot first.  Unix sockets have no such timeout.
_MARGIN: Final = 2.0


async def connect_replication(
    dsn: str,
    *,
    application_name: str = READER,
    sender_timeout: float = 4.0,
    stall_timeout: float = 20.0,
) -> AsyncConnection:
    """Open a replication connection; the caller closes it.

    Args:
        sender_timeout: seconds without a message from the reader, after which the server gives up.
        stall_timeout: seconds that sent data can stay unread.

    Raises:
        StreamLostError: the server cannot be reached at the moment.
        LoginRefusedError: the server rejects the login.
        ConfigError: *dsn* is not a valid connection string.
    """
    times = {
        "wal_sender_timeout": f"{round(sender_timeout * 1000)}ms",
        "tcp_user_timeout": f"{round((stall_timeout + _MARGIN) * 1000)}ms",
    }
    return await open_connection(
        AsyncConnection[Any],
        dsn,
        application_name,
        {**_SETTINGS, **times},
        lost=StreamLostError,
        replication="database",
        prepare_threshold=None,  # a walsender has no prepared statements
    )


async def take_bytes(conn: AsyncConnection) -> None:
    """Receive the text of a SQL_ASCII database unconverted: the server cannot send it as UTF-8.

    After this call psycopg also returns query results as bytes.
    """
    if server_encoding(conn) == "SQL_ASCII":
        await conn.execute("set client_encoding = 'SQL_ASCII'")


def server_encoding(conn: AsyncConnection) -> str:
    """Return the database's encoding under PostgreSQL's name."""
    return conn.info.parameter_status("server_encoding") or "UTF8"


async def start_replication(conn: AsyncConnection, options: StreamOptions) -> Transport:
    """Start streaming; from then on only the result uses *conn*, and the caller closes it.

    Raises:
        SlotBusyError: another reader has the slot.
        GapError: the slot, or the WAL that it needs, no longer exists.
        PreconditionError: the server or the role is not configured for replication.
        StreamLostError: the server does not respond, or would count the stream as a synchronous
            standby.
    """
    try:
        async with answering():
            await refuse_synchronous(conn, options.application_name)
            await take_bytes(conn)
            return await start_copy(conn, start_command(options))
    except Error as error:
        raise refused(error, options.slot) from error


@asynccontextmanager
async def answering() -> AsyncGenerator[None]:
    """Limit the wait for a reply that the server sends at once, but that can be lost.

    Raises:
        StreamLostError: no reply in time.
    """
    try:
        async with asyncio.timeout(_ANSWER):
            yield
    except TimeoutError as error:
        raise StreamLostError(f"no response from the server in {_ANSWER:g} s") from error
