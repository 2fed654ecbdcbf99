"""Looking, now and then, whether attachments still have what they were defined with."""

import asyncio
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection

from walagent.store.errors import translating
from walagent.store.pausing import pause_drifted

_EVERY = 30.0  # seconds between two looks: what leaves no trace in the WAL is seen by then
_REST = 0.5  # seconds at least, however often tables change


async def watch_drift(conn: AsyncConnection[Any], described: asyncio.Event) -> None:
    """Pause attachments that have lost their ground, for ever.

    Args:
        described: set when an attached table was told anew by the WAL, which may mean that it
            has changed; then it is looked at once.
    """
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_EVERY):
                await described.wait()
        described.clear()
        with translating():
            await pause_drifted(conn)
        await asyncio.sleep(_REST)
