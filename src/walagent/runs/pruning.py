"""Old runs go, a few at a time and each few in a transaction of their own.

A run that somebody holds is passed by, so nobody waits for us; the pauses leave disk and WAL to
those who have work to do.
"""

import asyncio
import time
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from walagent import metrics
from walagent.log import log
from walagent.store import pruning
from walagent.store.errors import translating

BATCH = 500  # some 20 ms
_REST = 1.0  # as long as the last batch took, so that half of the time is everybody else's


async def prune(
    conn: AsyncConnection[Any],
    keep: timedelta,
    keep_decided: timedelta | None,
    *,
    batch: int = BATCH,
) -> int:
    """Remove every run that ended longer than *keep* ago; return how many.

    Args:
        keep_decided: the same for runs in which a person has decided something; None: for ever.
        batch: how many runs are looked at in one transaction.

    Raises:
        DatabaseLostError: what was removed so far stays removed.
    """
    removed, after, started = 0, 0, time.monotonic()
    with translating():
        while True:
            began = time.monotonic()
            some, last = await pruning.prune_some(conn, keep, keep_decided, after, batch)
            removed += some
            metrics.runs_pruned.inc(some)
            if last is None:
                break
            after = last
            await asyncio.sleep((time.monotonic() - began) * _REST)
        await pruning.prune_rest(conn, keep)
    if removed:
        log.info("runs.pruned", runs=removed, seconds=round(time.monotonic() - started, 3))
    return removed
