"""Remove old runs in small batches, each in its own transaction.

Locked runs are skipped, so that no worker waits; the pauses limit the load on disk and WAL.
"""

import asyncio
import time
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from walagent.store import pruning
from walagent.store.calls import shared_calls
from walagent.store.errors import translating
from walagent.telemetry import metrics
from walagent.telemetry.log import log

BATCH = 500  # about 20 ms
FORGOTTEN = 5000  # writes of agents; as long
_REST = 1.0  # pause, as a multiple of the time of the last batch


async def prune(
    conn: AsyncConnection[Any],
    keep: timedelta,
    keep_decided: timedelta | None,
    *,
    batch: int = BATCH,
) -> int:
    """Remove every run that ended longer than *keep* ago; return how many.

    Args:
        keep_decided: the same for runs with a decision of a person; None: permanently.
        batch: runs of one transaction.

    Raises:
        DatabaseLostError: completed batches stay removed.
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


async def forget(conn: AsyncConnection[Any], within: timedelta, *, batch: int = FORGOTTEN) -> None:
    """Forget what agents wrote longer than *within* ago, and replies that are no longer shared.

    Changes of what was forgotten are no corrections.

    Raises:
        DatabaseLostError: what was forgotten stays so.
    """
    with translating():
        began = time.monotonic()
        while await pruning.forget_writes(conn, within, batch):
            await asyncio.sleep((time.monotonic() - began) * _REST)
            began = time.monotonic()
        while await shared_calls.forget_calls(conn, batch):
            await asyncio.sleep((time.monotonic() - began) * _REST)
            began = time.monotonic()
