"""Update every 5 s, while the stream is read, what metrics and health checks show."""

import asyncio
import time
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.replication.health import ReaderHealth
from walagent.replication.wal_activity import WalActivity
from walagent.store import budgets, status
from walagent.store.errors import translating
from walagent.telemetry import metrics

_UPDATE = 5.0  # seconds between two updates, and the timeout of one
_REST = 1.0  # seconds after an update that took that long
_RARELY = 60.0  # seconds between two updates of an idle server
_COUNT = 30.0  # seconds between two counts of runs, which read an index of the whole table
_SHARE = 0.01  # of the time that they may take


async def watch_status(
    conn: AsyncConnection[Any], slot: str, health: ReaderHealth, wal: WalActivity
) -> None:
    """Read the state of slot, approvals, runs and budgets; does not end.

    An update that waits for a lock on walagent's tables is skipped, and most of those while no WAL
    is written and no run is queued, which only gets older.
    """
    due, mark, again, queued = 0.0, None, 0.0, 0.0
    async for _ in Periodic(_UPDATE, rest=_REST):
        if not (queued or wal.has_moved(mark) or time.monotonic() >= again):
            health.turn()
            continue
        mark, again = wal.mark, time.monotonic() + _RARELY
        with suppress(TimeoutError), translating():
            async with asyncio.timeout(_UPDATE):
                seen = await status.read_status(conn, slot)
                health.withhold(withheld=seen.withheld)
                metrics.approvals_pending.set(seen.approvals)
                queued = await status.oldest_queued(conn)
                metrics.queue_oldest_seconds.set(queued)
                metrics.set_budgets(
                    (each.name, each.spent, each.reserved) for each in await budgets.standings(conn)
                )
                if time.monotonic() >= due:
                    started = time.monotonic()
                    due = started + _UPDATE / _SHARE  # unless it ends
                    metrics.set_runs(await status.count_runs(conn))
                    took = time.monotonic() - started
                    due = started + max(_COUNT, took / _SHARE)
        health.turn()
