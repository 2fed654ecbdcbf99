"""Check regularly whether the server sends what sinks ask for, while the stream is read.

The stream does not show it: a table that was taken out of the publication is silent, like one that
does not change.
"""

from typing import Any

from psycopg import AsyncConnection

from walagent.concurrency import Periodic
from walagent.errors import GapError
from walagent.replication.source import SILENCED
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating

_LOOK = 5.0  # seconds between two looks; so much more of the WAL counts as lost, to be safe


async def watch_publications(conn: AsyncConnection[Any], checkpoint: Checkpoint) -> None:
    """Look at the publications; does not end.

    Args:
        checkpoint: as it was when the stream began, and the publications were in order.

    Raises:
        GapError: they are not any more; what was not sent is recorded as lost, from the last look
            on that found them in order.
    """
    good = (checkpoint.end_lsn, checkpoint.committed_at)
    async for _ in Periodic(_LOOK):
        with translating():
            now = await gaps.present(conn)  # before the look, so that what is before it is sent
            if trouble := await gaps.publication_trouble(conn):
                lsn, since = good
                reason = "; ".join(trouble)
                await gaps.record_gap(
                    conn, checkpoint.slot, checkpoint.generation, reason, from_lsn=lsn, since=since
                )
                raise GapError(reason, hint=SILENCED)
        good = now
