"""Evaluate the rules of canaries at intervals."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.errors import ConflictError, DatabaseLostError, WalagentError
from walagent.store import canaries
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log

_EVERY: Final = 30.0  # seconds
# The application is not kept waiting: figures are read, and one row of an attachment is locked.
_PATIENCE: Final = {"statement_timeout": "60s", "lock_timeout": "2s"}


async def keep_checking(watch: AsyncConnection[Any], dsn: Callable[[], str]) -> None:
    """Check until cancelled; after an error, try again at the next interval.

    Args:
        watch: on which is looked whether a rule is due; a check has a connection of its own.
    """
    async for _ in Periodic(_EVERY):
        try:
            with translating():
                due = await canaries.due_canaries(watch)
            if due:
                async with await connect(
                    dsn(), application="walagent canaries", settings=_PATIENCE
                ) as conn:
                    await check_canaries(conn, due)
        except WalagentError as error:
            log.warning("canary.check_failed", attachment=0, error=error)


async def check_canaries(conn: AsyncConnection[Any], due: Iterable[int]) -> None:
    """Roll back the canaries of attachments whose rules say so, each in a transaction.

    One that cannot be checked, because somebody has locked it, holds up no other.
    """
    for attachment in due:
        try:
            with translating():
                ended = await canaries.check_canary(conn, attachment)
        except WalagentError as error:
            if isinstance(error, DatabaseLostError) and not isinstance(error, ConflictError):
                raise
            log.warning("canary.check_failed", attachment=attachment, error=error)
            continue
        if ended is not None:
            log.warning(
                "canary.rolled_back",
                attachment=ended.attachment,
                version=ended.version,
                reason=ended.reason,
            )
