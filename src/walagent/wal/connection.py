"""Opens the replication connection: its settings, and the start of the stream."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection, Error

from walagent.connection import TEXT_FORMS, open_connection
from walagent.errors import StreamLostError
from walagent.wal.options import StreamOptions, start_command
from walagent.wal.refusals import refused

# The walsender writes values as its session is set.  Names inside of values (regclass) tell their
# schema where there is no search path.
_SETTINGS: Final = {**TEXT_FORMS, "quote_all_identifiers": "off", "search_path": "pg_catalog"}
_ANSWER: Final = 20.0  # seconds; psycopg may take ten more to give up
# Seconds beyond the stall time-out in which a reader lets go by itself; then the server's system
# does it, for one that is frozen.  Unix sockets know nothing like that.
_MARGIN: Final = 2.0


async def connect_replication(
    dsn: str,
    *,
    application_name: str = "walagent",
    sender_timeout: float = 4.0,
    stall_timeout: float = 20.0,
) -> AsyncConnection:
    """Open a connection that can replicate; the caller closes it.

    Args:
        sender_timeout: seconds after which the server gives up on a reader that says nothing.
        stall_timeout: seconds that what the server has sent may wait to be read.

    Raises:
        StreamLostError: the server cannot be reached now.
        LoginRefusedError: it does not let us in.
        ConfigError: *dsn* is not a connection string.
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
    """Let a database without an encoding send its text as it is: it refuses to send it as UTF-8.

    From here on psycopg gives texts of queries as bytes, too.
    """
    if server_encoding(conn) == "SQL_ASCII":
        await conn.execute("set client_encoding = 'SQL_ASCII'")


def server_encoding(conn: AsyncConnection) -> str:
    """The database's encoding, as PostgreSQL calls it."""
    return conn.info.parameter_status("server_encoding") or "UTF8"


async def start_replication(conn: AsyncConnection, options: StreamOptions) -> None:
    """Start streaming.

    Raises:
        SlotBusyError: another reader has the slot.
        GapError: the slot, or the WAL it needs, is gone.
        PreconditionError: the server or the role is not set up for us.
        StreamLostError: the server does not answer.
    """
    try:
        async with answering():
            await take_bytes(conn)
            await conn.execute(start_command(options).encode())
    except Error as error:
        raise refused(error, options.slot) from error


@asynccontextmanager
async def answering() -> AsyncGenerator[None]:
    """Do not wait for ever for what the server answers at once, where an answer can be lost.

    Raises:
        StreamLostError: it was not there in time.
    """
    try:
        async with asyncio.timeout(_ANSWER):
            yield
    except TimeoutError as error:
        raise StreamLostError("the server does not answer") from error
