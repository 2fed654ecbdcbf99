"""Feed a fan-out from a temporary slot, and start over after each lost connection.

    slot and stream → Feed → FanOut      beside: tables are requested, the slot is measured

Nothing is durable here: what arrives is confirmed at once, and the slot ends with the connection.
Each stream begins after a gap, which subscribers receive as `Interrupted`.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Never

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege

from walagent.base.concurrency import Periodic, event_within, first_of
from walagent.base.retries import DATABASE, seconds
from walagent.config import Replication
from walagent.config.base import in_bytes
from walagent.config.dsn import Logins
from walagent.errors import (
    DatabaseLostError,
    GapError,
    PreconditionError,
    SlotBusyError,
    StreamLostError,
    WalagentError,
)
from walagent.replication.attempt import log_blockers
from walagent.replication.bootstrap import PUBLICATIONS, refuse_standby
from walagent.replication.fan_out import FanOut
from walagent.replication.feed import Feed
from walagent.replication.publication_watch import notice_lost
from walagent.replication.requests import keep_requests
from walagent.store import gaps, status
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.telemetry import metrics
from walagent.telemetry.log import log
from walagent.wal.options import SYNC_READER, StreamOptions
from walagent.wal.publications import missing_publications
from walagent.wal.slots import Blocker, check_room
from walagent.wal.synchronous import refuse_synchronous
from walagent.wal.temporary_slot import open_temporary_stream, temporary_name

_LOOK: Final = 2.0  # seconds between two looks at slot and publication
_CLEAN: Final = 30  # looks between two searches for requests of processes that have ended
_LEAVE: Final = 2.0  # seconds for withdrawing the requests of this process
_HEALTHY: Final = 60.0  # seconds of streaming after which backoff starts again
_BUSY: Final = 0.5  # seconds until the server has ended the slot of the connection before
_LOST: Final = (StreamLostError, DatabaseLostError, GapError, PreconditionError)


class TemporaryHealth:
    """Implements `http.health.Health`."""

    def __init__(self) -> None:
        """Start without a stream."""
        self._feed: Feed | None = None
        self._trouble: str | None = "the stream was not opened yet"
        self.lag_bytes = 0
        self.retained_bytes = 0
        self.warnings: Sequence[str] = ()

    @property
    def streaming(self) -> bool:
        """Whether the stream is open."""
        return self._feed is not None

    @property
    def progress_age(self) -> float:
        """Return the seconds since the stream last delivered something; normally below 4 s."""
        return time.monotonic() - self._feed.progressed_at if self._feed else 0.0

    @property
    def reasons(self) -> Sequence[str]:
        """Return why there is no stream."""
        return [self._trouble] if self._trouble else []

    def opened(self, feed: Feed) -> None:
        """Record that the stream is open."""
        self._feed, self._trouble = feed, None

    def closed(self, trouble: str) -> bool:
        """Record why there is no stream; return whether the reason is new."""
        is_new = trouble != self._trouble
        self._feed, self._trouble = None, trouble
        self.lag_bytes = self.retained_bytes = 0
        return is_new

    def measured(self, seen: status.SlotBacklog) -> None:
        """Record what the server retains."""
        self.lag_bytes, self.retained_bytes = seen.behind, seen.retained
        metrics.replication_lag_bytes.set(seen.behind)
        metrics.slot_retained_bytes.set(seen.retained)


@dataclass(frozen=True, slots=True)
class Source:
    """What a temporary reader reads.

    Args:
        settings: of the durable reader; its slot is another one.
        max_retained: bytes of WAL beyond which the slot is dropped.
    """

    logins: Logins
    settings: Replication
    max_retained: int
    on_streaming: Callable[[], None] = lambda: None


class TemporaryReader:
    """Feeds a fan-out until it is cancelled."""

    def __init__(self, source: Source, fan_out: FanOut) -> None:
        """Store the parameters; nothing is connected yet."""
        self._source = source
        self._fan_out = fan_out
        self._slot = temporary_name("sync")
        self._failures = 0  # in a row
        self._has_streamed = False
        self._restart: str | None = None  # the LSN from which the slot retained WAL, as seen last
        self._abandoned: frozenset[str] = frozenset()
        self._hurry = asyncio.Event()
        self.health = TemporaryHealth()

    def hurry(self) -> None:
        """End the current pause: the logins have changed."""
        self._hurry.set()

    async def run(self) -> Never:
        """Feed the fan-out; does not end.

        Raises:
            PreconditionError: before the first stream; later, it is waited for.
            DecodeError: the WAL cannot be decoded.
        """
        try:
            while True:
                started = time.monotonic()
                try:
                    await self._stream()
                except SlotBusyError as error:
                    self._close(error)
                    wait = _BUSY
                except _LOST as error:
                    if isinstance(error, PreconditionError) and not self._has_streamed:
                        raise
                    was_healthy = time.monotonic() - started > _HEALTHY
                    self._failures = 0 if was_healthy else self._failures + 1
                    self._close(error)
                    wait = seconds(DATABASE, self._failures)
                self._hurry.clear()
                await event_within(self._hurry, wait)
        finally:
            await self._leave()

    def _close(self, error: WalagentError) -> None:
        if self.health.closed(str(error)):
            log.warning("reader.waiting", slot=self._slot, error=error)
        self._fan_out.interrupt()

    async def _stream(self) -> Never:
        """Read one slot until it is lost."""
        with translating():
            async with await connect(self._source.logins.dsn(), application=SYNC_READER) as conn:
                await self._check(conn)
                self._restart = None
                try:
                    await first_of(follow=self._follow(conn), watch=self._watch(conn))
                except StreamLostError as error:
                    raise await self._named(conn, error) from error
        raise AssertionError

    async def _named(self, conn: AsyncConnection[Any], error: StreamLostError) -> StreamLostError:
        """Name the limit if the server ended the slot for it: it sends no reason.

        A slot that is used is not marked as invalidated: its process is terminated.
        """
        if self._restart is None:
            return error
        with suppress(WalagentError), translating():
            kept = await status.read_kept(conn, self._restart)
            if kept.limit is not None and kept.written > kept.limit:
                return StreamLostError(
                    f"{error}: the slot retained up to {in_bytes(kept.written)} of WAL, more than"
                    f" {in_bytes(kept.limit)} (max_slot_wal_keep_size)"
                )
        return error

    async def _check(self, conn: AsyncConnection[Any]) -> None:
        await refuse_standby(conn)
        if missing := await missing_publications(conn, PUBLICATIONS):
            raise PreconditionError(
                f"publication does not exist: {', '.join(missing)}", hint="Run walagent init."
            )
        await check_room(conn, leave_for=self._source.settings.slot)

    async def _follow(self, conn: AsyncConnection[Any]) -> Never:
        settings = self._source.settings
        options = StreamOptions(
            slot=self._slot,
            publications=PUBLICATIONS,
            protocol=settings.protocol,
            status_interval=settings.status_interval,
            sender_timeout=settings.sender_timeout,
            stall_timeout=settings.stall_timeout,
            application_name=SYNC_READER,
        )
        login = self._source.logins.replication_dsn()
        async with open_temporary_stream(login, options, self._wait) as stream:
            await stream.during(self._check_server(conn))
            self._fan_out.interrupt()  # shapes that were made meanwhile miss what was committed
            feed = Feed(stream, [self._fan_out])
            self.health.opened(feed)
            self._has_streamed = True
            log.info("reader.streaming", slot=self._slot, lsn=str(stream.received))
            self._source.on_streaming()
            requests = keep_requests(conn, self._slot, [self._fan_out], self._fan_out.answers)
            parts: Mapping[str, Coroutine[Any, Any, object]] = {
                "feed": feed.run(),
                "requests": requests,
            }
            await stream.during(first_of(**parts))
        raise AssertionError

    async def _check_server(self, conn: AsyncConnection[Any]) -> None:
        """Check that rows and changes come from one server.

        Raises:
            PreconditionError: the slot is on another one, as after a failover that only one of
                the connection strings follows.
        """
        if (await status.read_backlog(conn, self._slot)).restart is None:
            raise PreconditionError(
                f'slot "{self._slot}" does not exist on the server of the connection string: the'
                " replication connection string leads to another one",
                hint="Set both to the same server: DATABASE_URL and DATABASE_REPLICATION_URL, or"
                " --dsn and --replication-dsn.",
            )

    def _wait(self, blockers: Sequence[Blocker]) -> None:
        pids = ", ".join(str(blocker.pid) for blocker in blockers)
        if self.health.closed(f"the slot waits for transactions of PID {pids}"):
            log_blockers(blockers)

    async def _watch(self, conn: AsyncConnection[Any]) -> Never:
        """Look at slot and publication.

        Raises:
            StreamLostError: the slot retains too much, or the server waits for this reader.
        """
        most, looks = self._source.max_retained, 0
        async for _ in Periodic(_LOOK):
            seen = await status.read_backlog(conn, self._slot)
            self.health.measured(seen)
            # Before the first look at the slot: from about where it was created.
            self._restart = seen.restart or self._restart or seen.end
            if seen.retained > most:
                raise StreamLostError(
                    f"the temporary slot retained {in_bytes(seen.retained)} of WAL, more than"
                    f" {in_bytes(most)} (sync.max_retained)"
                )
            await refuse_synchronous(conn, SYNC_READER)
            await notice_lost(conn, self._slot, self._fan_out)
            looks += 1
            if looks % _CLEAN == 0:
                await self._clean(conn)
        raise AssertionError("the turns have no end")

    async def _clean(self, conn: AsyncConnection[Any]) -> None:
        """Withdraw requests of processes that were killed, seen without a slot for a minute."""
        try:
            found = frozenset(await gaps.abandoned_requests(conn, "walagent_sync_"))
        except InsufficientPrivilege:
            return  # it may request, but not see what others do
        for slot in found & self._abandoned:
            with suppress(WalagentError), translating():
                await gaps.request_tables(conn, slot, {})
        self._abandoned = found

    async def _leave(self) -> None:
        """Withdraw the requests of this process; if that fails, another process does."""
        with suppress(WalagentError, TimeoutError):
            async with asyncio.timeout(_LEAVE):
                with translating():
                    dsn = self._source.logins.dsn()
                    async with await connect(dsn, application=SYNC_READER) as conn:
                        await gaps.request_tables(conn, self._slot, {})
