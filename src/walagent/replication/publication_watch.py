"""Check the publications every few seconds while the stream is read.

They must send what sinks request.  The stream does not show it: a table that was removed from its
publication is as silent as one that does not change.  For a durable sink this is a gap; shapes are
fetched again.  And they must not send updates that would
fail in the application, because their table has lost its replica identity since it was published.
"""

import time
from typing import Any

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.errors import GapError
from walagent.replication.bootstrap import PUBLICATIONS
from walagent.replication.fan_out import FanOut
from walagent.replication.source import SILENCED
from walagent.replication.wal_activity import WalActivity
from walagent.store import gaps
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating
from walagent.telemetry.log import log
from walagent.wal.publications import published_as

_CHECK = 5.0  # seconds between two checks; a gap starts at the last one without a problem
_LOOK = 2.0  # seconds; the application's UPDATE fails for as long, and a shape stands still


async def watch_publications(
    conn: AsyncConnection[Any], checkpoint: Checkpoint, wal: WalActivity
) -> None:
    """Check the publications while WAL is written; does not end.

    Args:
        checkpoint: as of the start of the stream, when the publications were checked.

    Raises:
        GapError: a table is not sent; the gap is recorded from the last check without a problem.
    """
    good = (checkpoint.end_lsn, checkpoint.committed_at)
    async for _ in wal.turns(_CHECK):
        with translating():
            now = await gaps.present(conn)  # before the check, so that changes before it were sent
            if trouble := await gaps.publication_trouble(conn):
                lsn, since = good
                reason = "; ".join(trouble)
                await gaps.record_gap(
                    conn, checkpoint.slot, checkpoint.generation, reason, from_lsn=lsn, since=since
                )
                raise GapError(reason, hint=SILENCED)
        good = now


async def watch_identities(conn: AsyncConnection[Any], wal: WalActivity) -> None:
    """Publish no updates that would fail, and pause attachments that need them; does not end."""
    async for _ in wal.turns(_LOOK):
        with translating():
            for table, problem in await gaps.check_identities(conn):
                log.warning("publication.updates_removed", table=table, reason=problem)


async def watch_shapes(conn: AsyncConnection[Any], slot: str, fan_out: FanOut) -> None:
    """Interrupt subscribers of tables that are no longer published; does not end."""
    async for _ in Periodic(_LOOK):
        with translating():
            await notice_lost(conn, slot, fan_out)


async def notice_lost(conn: AsyncConnection[Any], slot: str, fan_out: FanOut) -> None:
    """Interrupt subscribers of tables that another role removed from the publication.

    A change that was committed meanwhile was not sent.  `keep_requests` adds the tables again,
    also those that nobody relies on yet: somebody may wait until they are published.
    """
    answers = fan_out.answers
    wanted, standing = fan_out.tables(), frozenset(answers.standing)
    relied_on = {table: want.entry for table, want in wanted.items() if want.entry is not None}
    expected = relied_on.keys() | (wanted.keys() & standing)
    if not expected:
        return
    now = await published_as(conn, PUBLICATIONS[0])
    lost = {t for t in expected if t not in now or relied_on.get(t, now[t]) != now[t]}
    for table in answers.lost.keys() & expected - lost:
        del answers.lost[table]  # another process has added it
    if new := lost - answers.lost.keys():
        log.warning("publication.changed", slot=slot, tables=sorted(".".join(t) for t in new))
        answers.lost |= dict.fromkeys(new, time.monotonic())
    if misled := lost & relied_on.keys():
        fan_out.interrupt(frozenset(misled))
