"""Keeps the tables small: looks for old runs now and then, on a connection of its own."""

import asyncio
from collections.abc import Callable

from walagent.config import Retention
from walagent.errors import WalagentError
from walagent.log import log
from walagent.runs.pruning import prune
from walagent.store.connections import connect


async def keep_pruning(dsn: Callable[[], str], retention: Retention) -> None:
    """Remove what has grown old, for ever; what goes wrong is said, and tried again next time."""
    while retention.runs is not None:
        await asyncio.sleep(retention.every)
        try:
            async with await connect(dsn(), application="walagent retention") as conn:
                await prune(conn, retention.runs, retention.decided)
        except WalagentError as error:
            log.warning("retention.failed", error=error)
