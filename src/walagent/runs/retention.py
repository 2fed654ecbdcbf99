"""Remove old runs, and what agents wrote long ago, at intervals, on a separate connection."""

from collections.abc import Callable

from walagent.base.concurrency import Periodic
from walagent.config import Retention
from walagent.errors import WalagentError
from walagent.runs.pruning import forget, prune
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log


async def keep_pruning(dsn: Callable[[], str], retention: Retention) -> None:
    """Remove what is old until cancelled; after an error, try again at the next interval."""
    async for _ in Periodic(retention.every, at_once=False):
        try:
            async with await connect(dsn(), application="walagent retention") as conn:
                await forget(conn, retention.corrections)
                if retention.runs is not None:
                    await prune(conn, retention.runs, retention.decided)
        except WalagentError as error:
            log.warning("retention.failed", error=error)
