"""The locks of an upgrade: one process at a time, and no daemon in the middle of a transaction."""

from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg.sql import SQL

from walagent.base.retries import CONFLICT, of, repeat
from walagent.errors import PreconditionError
from walagent.store.queries import query

Connection = AsyncConnection[Any]

_LOCK: Final = 0x77616C61  # "wala": one migrator at a time
PATIENCE = 60.0  # seconds to wait for another one, or for the transactions of daemons
# Daemons wait behind a lock that waits: it is given up after this time, and requested again.
_TRIES: Final = SQL("set local lock_timeout = '1s'")


class _HeldError(Exception):
    """Another session holds the lock."""


async def lock_migrations(conn: Connection) -> None:
    """Wait until no other migrator uses this database; the lock lasts until *conn* closes.

    An advisory lock, which every login can hold, for an empty database has no other.

    Raises:
        PreconditionError: another session has held it for too long.
    """

    async def lock() -> None:
        cursor = await conn.execute("select pg_try_advisory_lock(%(lock)s)", {"lock": _LOCK})
        if await cursor.fetchone() != (True,):
            raise _HeldError

    try:
        await repeat(lock, of(_HeldError), wait=CONFLICT, within=PATIENCE)
    except _HeldError:
        cursor = await conn.execute(query("migration_holder"), {"lock": _LOCK})
        pid, who, application = await cursor.fetchone() or ("?", "?", "?")
        raise PreconditionError(
            f"another session has held the lock of migrations for {PATIENCE:g} s:"
            f' PID {pid}, role "{who}", application "{application}"',
            hint=f"Wait for it, or run select pg_terminate_backend({pid}).",
        ) from None


async def lock_tables(conn: Connection) -> None:
    """Lock walagent's tables until the transaction ends, between the transactions of daemons.

    Raises:
        PreconditionError: transactions have used them for too long.
    """

    async def lock() -> None:
        async with conn.transaction():
            await conn.execute(_TRIES)
            await conn.execute(query("lock_schema"))

    try:
        await repeat(lock, of(LockNotAvailable, DeadlockDetected), wait=CONFLICT, within=PATIENCE)
    except (LockNotAvailable, DeadlockDetected) as error:
        raise PreconditionError(
            f"transactions have used walagent's tables for {PATIENCE:g} s",
            hint="Stop the daemons, or look at pg_stat_activity, and repeat.",
        ) from error
