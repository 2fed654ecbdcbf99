"""Check every 30 s whether attachments are broken, while WAL is written."""

from typing import Any

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.replication.wal_activity import WalActivity
from walagent.store.attachments import cancel_detached
from walagent.store.errors import translating
from walagent.store.pausing import pause_drifted


async def watch_drift(conn: AsyncConnection[Any], turns: Periodic, wal: WalActivity) -> None:
    """Pause attachments that are broken, and cancel runs that no claim serves; does not end.

    Args:
        turns: nudged when the WAL describes an attached table again, which may have changed.
    """
    mark = None
    async for nudged in turns:
        if not (nudged or wal.has_moved(mark)):
            continue
        mark = wal.mark
        with translating():
            await pause_drifted(conn)
            await cancel_detached(conn)
