"""Whether the server sends what is attached, looked at while the stream is read.

The stream cannot tell: a table that somebody took out of the publication is silent, like one in
which nothing happens.
"""

import asyncio
from typing import Any

from psycopg import AsyncConnection

from walagent.errors import GapError
from walagent.replication.bootstrap import SILENCED
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating

_LOOK = 5.0  # seconds between two looks; so much more of the WAL counts as lost, to be safe


async def watch_publications(conn: AsyncConnection[Any], checkpoint: Checkpoint) -> None:
    """Look for ever.

    Args:
        checkpoint: as it was when the stream began, and the publications were in order.

    Raises:
        GapError: they are not any more; what was not sent is recorded as lost, from the last look
            on that found them in order.
    """
    good = (checkpoint.end_lsn, checkpoint.committed_at)
    while True:
        with translating():
            now = await gaps.present(conn)  # before the look, so that what is before it is sent
            trouble = await gaps.publication_trouble(conn)
            if trouble:
                reason = "; ".join(trouble)
                lsn, since = good
                await gaps.record_gap(
                    conn, checkpoint.slot, checkpoint.generation, reason, from_lsn=lsn, since=since
                )
                raise GapError(reason, hint=SILENCED)
        good = now
        await asyncio.sleep(_LOOK)
