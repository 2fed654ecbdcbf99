"""One attempt to follow the slot.

checkpoint → slot checked → sinks opened → stream opened (only one can) → checkpoint held → fed
"""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Never

from psycopg import AsyncConnection

from walagent.base.concurrency import first_of
from walagent.config import Replication
from walagent.config.dsn import Logins
from walagent.errors import GapError
from walagent.replication.bootstrap import PUBLICATIONS, ensure_slot
from walagent.replication.checkpoint_lock import check_locks
from walagent.replication.feed import Feed
from walagent.replication.health import ReaderHealth
from walagent.replication.publication_watch import watch_identities, watch_publications
from walagent.replication.requests import keep_requests
from walagent.replication.sinks import (
    Beside,
    Opening,
    OpenSinks,
    SinkSet,
    Table,
    first_needed,
    tables_of,
)
from walagent.replication.slot_watch import SlotWatch
from walagent.replication.source import Source, check_source, hold_checkpoint
from walagent.replication.status_watch import watch_status
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log
from walagent.wal.options import READER, StreamOptions
from walagent.wal.refusals import LOST
from walagent.wal.slots import Blocker
from walagent.wal.stream import ReplicationStream, open_stream
from walagent.wal.synchronous import refuse_synchronous

_IDLE = 60.0  # seconds that a transaction of ours may rest
_OWN: Table = ("agent", "attachment")


@dataclass(frozen=True, slots=True)
class Following:
    """The parameters of every attempt."""

    logins: Logins
    settings: Replication
    open_sinks: OpenSinks
    name: str  # of this reader, for `agent.checkpoint`
    on_streaming: Callable[[], None] = lambda: None  # called each time that the stream is open


class StreamAttempt:
    """Opens the stream at the end of the checkpoint and feeds the sinks until an error."""

    def __init__(
        self,
        following: Following,
        health: ReaderHealth,
        watch: SlotWatch,
        tables: frozenset[Table],
        *,
        is_careful: bool,
    ) -> None:
        """Store the parameters; nothing is connected yet.

        Args:
            tables: needed in addition to those that the sinks return when they are opened.
            is_careful: whether to check first that the checkpoint can be written.
        """
        self._following = following
        self._settings = following.settings
        self._health = health
        self._watch = watch
        self._tables = tables
        self._is_careful = is_careful
        self._feed: Feed | None = None
        self.let_in = False  # whether the server accepted the logins
        self.found: Checkpoint | None = None  # as it was read
        self.held: Checkpoint | None = None  # as of this process's take-over

    @property
    def has_moved(self) -> bool:
        """Return whether the stream delivered something."""
        found = self.found
        return self._feed is not None and found is not None and self._feed.passed > found.end_lsn

    async def run(self) -> Never:
        """Follow the slot.

        Raises:
            SlotBusyError: another reader holds the slot; stand by.
            ResubscribeError: start over, for other tables.
            StreamLostError, DatabaseLostError, FencedError: start over.
            GapError, PreconditionError, DecodeError: an operator must act.
        """
        dsn, login = self._following.logins.dsn(), self._following.logins.replication_dsn()
        async with AsyncExitStack() as stack:
            conn = await stack.enter_async_context(
                await connect(dsn, application="walagent status", idle=_IDLE)
            )
            with translating():
                opening, source = await self._check(dsn, login, conn)
                opened = await stack.enter_async_context(self._following.open_sinks(opening))
            options = self._options(opened, opening.checkpoint, source)
            stream = await stack.enter_async_context(open_stream(login, options))
            await stream.during(self._follow(stream, opened, opening, source))
        raise AssertionError

    async def _check(
        self, dsn: str, login: str, conn: AsyncConnection[Any]
    ) -> tuple[Opening, Source]:
        """Read the checkpoint; check that it can be written and that the slot can be read."""
        settings = self._settings
        await refuse_synchronous(conn, READER)  # before anything commits
        if self._is_careful:  # the last attempt failed, perhaps because it could not write
            await check_locks(dsn, conn, settings.slot)
        self.found = checkpoint = await ensure_slot(conn, login, settings, log_blockers)
        source = await check_source(conn, login, settings, checkpoint)
        self.let_in = True
        opening = Opening(
            dsn, conn, settings, checkpoint, source.slot.failover, self._tables, self._watch.wal
        )
        return opening, source

    async def _follow(
        self, stream: ReplicationStream, opened: SinkSet, opening: Opening, source: Source
    ) -> Never:
        """Take over the checkpoint, after the slot, and feed the sinks."""
        conn, name = opening.conn, self._following.name
        with translating():
            self.held = checkpoint = await hold_checkpoint(conn, source, opening.checkpoint, name)
        beside = await opened.start(checkpoint)
        self._feed = feed = Feed(stream, opened.sinks, self._carried(opened))
        self._health.opened(feed)
        log.info("reader.streaming", slot=checkpoint.slot, lsn=str(checkpoint.end_lsn))
        self._following.on_streaming()
        await first_of(feed=feed.run(), **self._beside(opened, conn, checkpoint), **beside)
        raise AssertionError

    def _beside(
        self, opened: SinkSet, conn: AsyncConnection[Any], checkpoint: Checkpoint
    ) -> Beside:
        """Return the reader's own work."""
        wal = self._watch.wal
        work: dict[str, Coroutine[Any, Any, object]] = {
            "status": watch_status(conn, checkpoint.slot, self._health, wal),
            "synchronous": self._watch.synchronous(),
            "identities": watch_identities(conn, wal),  # with each plug-in: publications exist
        }
        if self._settings.plugin == "pgoutput":
            work["publications"] = watch_publications(conn, checkpoint, wal)
            work["requests"] = keep_requests(conn, checkpoint.slot, opened.sinks, opened.answers)
        return work

    def _carried(self, opened: SinkSet) -> frozenset[Table] | None:
        """Return the tables of the stream; None if publications decide while it is open."""
        if self._settings.plugin == "pgoutput":
            return None
        return tables_of(opened.sinks) | self._tables

    def _options(self, opened: SinkSet, checkpoint: Checkpoint, source: Source) -> StreamOptions:
        """Start at the lowest position of the durable sinks."""
        settings, start = self._settings, first_needed(opened.sinks, checkpoint.end_lsn)
        confirmed = source.slot.confirmed
        if confirmed is not None and confirmed > start:
            raise GapError(
                f'slot "{settings.slot}" is at {confirmed}, ahead of a sink at {start}', hint=LOST
            )
        return StreamOptions(
            slot=settings.slot,
            plugin=settings.plugin,
            publications=PUBLICATIONS,
            tables=(_OWN, *sorted(self._carried(opened) or ())),
            protocol=settings.protocol,
            start=start,
            status_interval=settings.status_interval,
            sender_timeout=settings.sender_timeout,
            stall_timeout=settings.stall_timeout,
        )


def log_blockers(blockers: Sequence[Blocker]) -> None:
    """Log the transactions that a new slot waits for."""
    for blocker in blockers:
        log.warning(
            "slot.creation_blocked",
            pid=blocker.pid,
            seconds=round(blocker.age),
            application=blocker.application_name,
        )
