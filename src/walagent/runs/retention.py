"""Remove old runs at intervals, on a separate connection."""

from collections.abc import Callable

from walagent.base.concurrency import Periodic
from walagent.config import Retention
from walagent.errors import WalagentError
from walagent.runs.pruning import prune
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log


async def keep_pruning(dsn: Callable[[], str], retention: Retention) -> None:
    """Remove old runs until cancelled; after an error, try again at the next interval."""
    if retention.runs is None:
        return
    async for _ in Periodic(retention.every, at_once=False):
        try:
            async with await connect(dsn(), application="walagent retention") as conn:
                await prune(conn, retention.runs, retention.decided)
        except WalagentError as error:
            log.warning("retention.failed", error=error)
