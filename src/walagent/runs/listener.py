"""Listen for new runs and cancellations.  A notification is a hint; the poll is the truth."""

import asyncio
from collections.abc import Callable
from typing import Any

from psycopg import AsyncConnection, Error

from walagent.errors import WalagentError
from walagent.store.sessions.connections import Pool
from walagent.telemetry.log import log

_CHANNELS = ("walagent_runs", "walagent_cancel", "walagent_budgets", "walagent_interrupt")
_CHECK = 30.0  # seconds between checks of the LISTEN connection
_RETRY = 1.0  # seconds until a new connection after one was lost


async def listen(pool: Pool, notified: Callable[[str, str], None]) -> None:
    """Call *notified* with channel and payload of each notification, until cancelled."""
    while True:
        try:
            async with pool.connection() as conn:
                await _listen_on(conn, notified)
        except (Error, WalagentError) as error:
            log.warning("worker.listener_lost", error=error)
        await asyncio.sleep(_RETRY)


async def _listen_on(conn: AsyncConnection[Any], notified: Callable[[str, str], None]) -> None:
    for channel in _CHANNELS:
        await conn.execute(f"listen {channel}".encode())
    while True:
        async for notification in conn.notifies(timeout=_CHECK):
            notified(notification.channel, notification.payload)
        await conn.execute("select")  # raises if the connection is lost
