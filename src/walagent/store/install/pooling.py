"""Detect a pooler between walagent and the server, and whether it shares sessions."""

from typing import Any

from psycopg import AsyncConnection, Error

from walagent.errors import PreconditionError
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect

Connection = AsyncConnection[Any]

_ATTEMPTS = 10


async def check_pooling(conn: Connection, dsn: str) -> None:
    """Check that the statements of a connection have one session.

    Args:
        conn: from `connect`, to *dsn*.

    Raises:
        PreconditionError: a pooler gives each transaction another session.
    """
    with translating():
        if conn.prepare_threshold is not None or not await _shares_sessions(dsn):
            return  # `connect` prepares nothing behind a pooler
    raise PreconditionError(
        "the connection string leads to a pooler that shares sessions between transactions",
        hint="Connect to PostgreSQL directly, or set pool_mode = session for walagent's login.",
    )


async def _shares_sessions(dsn: str) -> bool:
    """Return whether a second connection gets the session of one that is still open.

    A pooler prefers the session that was used last, so a few attempts suffice.
    """
    async with await connect(dsn) as first, await connect(dsn) as second:
        for _ in range(_ATTEMPTS):
            session = await _session_of(first)
            try:
                async with second.transaction():
                    if await _session_of(second) == session:
                        return True
            except Error as error:
                if error.sqlstate == "08P01":  # no transactions: sessions for a statement
                    return True
                raise
    return False


async def _session_of(conn: Connection) -> int:
    row = await (await conn.execute("select pg_backend_pid()")).fetchone()
    return row[0] if row else 0
