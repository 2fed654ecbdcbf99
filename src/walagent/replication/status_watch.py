"""Update every 5 s, while the stream is read, what metrics and health checks show."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Any

from psycopg import AsyncConnection

from walagent import metrics
from walagent.concurrency import Periodic
from walagent.replication.health import ReaderHealth
from walagent.store import budgets, status
from walagent.store.errors import translating

_UPDATE = 5.0  # seconds between two updates, and the timeout of one
_REST = 1.0  # seconds after an update that took that long
_COUNT = 6  # updates between two counts of runs, which read an index of the whole table


async def watch_status(conn: AsyncConnection[Any], slot: str, health: ReaderHealth) -> None:
    """Read the state of slot, approvals, runs and budgets; does not end.

    An update that waits for a lock on walagent's tables is skipped.
    """
    turns = count()
    async for _ in Periodic(_UPDATE, rest=_REST):
        with suppress(TimeoutError), translating():
            async with asyncio.timeout(_UPDATE):
                seen = await status.read_status(conn, slot)
                health.withhold(withheld=seen.withheld)
                metrics.approvals_pending.set(seen.approvals)
                if next(turns) % _COUNT == 0:
                    await _count(conn)
        health.turn()


async def _count(conn: AsyncConnection[Any]) -> None:
    metrics.set_runs(await status.count_runs(conn))
    metrics.queue_oldest_seconds.set(await status.oldest_queued(conn))
    metrics.set_budgets(
        (each.name, each.spent, each.reserved) for each in await budgets.standings(conn)
    )
