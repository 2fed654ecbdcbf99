"""The reader: holds the slot if it can, stands by if it cannot, and keeps coming back.

checkpoint → slot checked → stream opened (only one can) → checkpoint taken over → intake
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from walagent import metrics
from walagent.attachment import Attachment
from walagent.backoff import pause_after
from walagent.config import Replication, Retention
from walagent.errors import (
    DatabaseLostError,
    FencedError,
    GapError,
    LoginRefusedError,
    SlotBusyError,
    StreamLostError,
)
from walagent.intake.backfill import Backfill
from walagent.intake.conditions import Evaluator
from walagent.intake.intake import Intake, ResubscribeError, Starter
from walagent.log import log
from walagent.lsn import Lsn
from walagent.matching.document import ROOM, Room
from walagent.matching.registry import Registry
from walagent.replication.bootstrap import PUBLICATIONS, Source, check_source, ensure_slot, let_go
from walagent.replication.checkpoint_lock import check_locks
from walagent.replication.drift_watch import watch_drift
from walagent.replication.publication_watch import watch_publications
from walagent.replication.slot_watch import SlotWatch
from walagent.runs.retention import keep_pruning
from walagent.store import attachments, backfills, budgets, gaps, status
from walagent.store import checkpoint as checkpoints
from walagent.store.connections import connect
from walagent.store.errors import translating
from walagent.store.pausing import pause_drifted
from walagent.wal.fanout import FanOut
from walagent.wal.options import StreamOptions
from walagent.wal.refusals import LOST
from walagent.wal.slots import Blocker
from walagent.wal.stream import ReplicationStream, open_stream

_STANDBY = 0.5  # seconds between two tries of a standby; a take-over must be quick
_HEALTHY = 60.0  # seconds of streaming after which delays start small again
_IDLE = 60.0  # seconds that a transaction of ours may rest
_LOOK = 5.0  # seconds between two looks at what waits
_WITHHELD = (
    "the server keeps changes back until the standbys in synchronized_standby_slots have them"
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The connections of a reader, each for one part of it."""

    intake: AsyncConnection[Any]
    evaluate: Evaluator
    looker: AsyncConnection[Any]
    filler: AsyncConnection[Any]


class Reader:
    """Follows one slot.  Implements `http.health.Health`."""

    def __init__(  # noqa: PLR0913 - two logins, settings, and who wants to hear
        self,
        dsn: str,
        replication_dsn: str,
        settings: Replication,
        *,
        name: str,
        on_runs: Callable[[], None] = lambda: None,
        starter: Starter | None = None,
        on_streaming: Callable[[], None] = lambda: None,
        fan_out: FanOut | None = None,
        retention: Retention | None = None,
        room: Room = ROOM,
    ) -> None:
        """Connect to nothing yet.

        Args:
            name: of this reader, for `agent.checkpoint`.
            on_runs: called after runs were committed.
            starter: a worker in this process, which can be given runs at once.
            on_streaming: called each time that the stream is open.
            fan_out: gets every transaction beside intake.
            retention: how long ended runs are kept; None: for ever.
            room: how much of a change a run keeps.
        """
        self._dsn = dsn
        self._replication_dsn = replication_dsn
        self._settings = settings
        self._name = name
        self._on_runs = on_runs
        self._starter = starter
        self._on_streaming = on_streaming
        self._fan_out = fan_out
        self._retention = retention or Retention()
        self._room = room
        self._relations: frozenset[tuple[str, str]] = frozenset()  # that the WAL told of
        self._intake: Intake | None = None
        self._began = Lsn(0)  # where the present stream starts
        self._trouble: str | None = None
        self._failed = False  # whether the last stream was lost, or the last try for one
        self._let_in = False  # whether the server has let our logins in before
        self._withholding = False  # whether the server waited for a standby at the last look
        self._withheld: str | None = None  # the same, when it did so twice
        self._hurry = asyncio.Event()
        self._found: checkpoints.Checkpoint | None = None  # as it was read last
        self._held: checkpoints.Checkpoint | None = None  # as it was when this process took it last
        self._slot_watch = SlotWatch(
            lambda: self._dsn, settings, lambda: self._held.epoch if self._held else None
        )
        self.turned_at = time.monotonic()  # for the watchdog: when this part last did something
        self.attached = asyncio.Event()
        self._described = asyncio.Event()

    # Health.

    @property
    def streaming(self) -> bool:
        """Whether this process holds the slot and reads from it."""
        return self._intake is not None

    @property
    def progress_age(self) -> float:
        """Seconds since the stream last told us something; it does several times in 4 s."""
        return time.monotonic() - self._intake.progressed_at if self._intake else 0.0

    @property
    def lag_bytes(self) -> int:
        """WAL that the server has and our checkpoint has not."""
        return self._slot_watch.behind

    @property
    def retained_bytes(self) -> int:
        """WAL that the server keeps for the slot."""
        return self._slot_watch.retained

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although changes are ingested."""
        return self._slot_watch.warnings

    @property
    def reasons(self) -> Sequence[str]:
        """Why nothing is read, or nothing comes."""
        return [reason for reason in (self._trouble, self._withheld) if reason]

    async def run(self) -> None:
        """Follow the slot for ever, or until it is given up.

        Raises:
            GapError, PreconditionError, DecodeError: a person must act.
            LoginRefusedError: the same, if we were never let in.
        """
        following = asyncio.create_task(self._keep_following(), name="follow")
        watching = asyncio.create_task(self._slot_watch.run(), name="slot")
        try:
            await asyncio.wait({following, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                following.result()
            reason = watching.result()
        finally:
            for part in (following, watching):
                part.cancel()
            await asyncio.gather(following, watching, return_exceptions=True)
        await self._drop()
        raise GapError(reason, hint=LOST)

    async def _drop(self) -> None:
        """Drop the slot that is given up, however long that takes: it is why we give up."""
        failures = 0
        while True:
            try:
                return await let_go(self._replication_dsn, self._settings.slot)
            except (
                StreamLostError,
                DatabaseLostError,
                SlotBusyError,
                LoginRefusedError,
            ) as error:
                failures += 1
                self._note(f"the slot is given up, and cannot be dropped yet: {error}", error)
            await self._pause(pause_after(failures))

    async def _keep_following(self) -> None:
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await self._follow()
            except ResubscribeError as error:
                self._relations = error.relations
                log.info("reader.resubscribing", slot=self._settings.slot)
                continue
            except SlotBusyError as error:
                self._let_in = True
                self._note("standing by: another reader holds the slot", error)
                await self._pause(_STANDBY)
                continue
            except (StreamLostError, DatabaseLostError, FencedError, LoginRefusedError) as error:
                if isinstance(error, LoginRefusedError) and not self._let_in:
                    raise
                failures = 0 if self._was_healthy(started) else failures + 1
                self._failed = True
                self._note(str(error), error)
            except GapError as error:
                if await self._is_recorded(error):
                    raise
                failures += 1
            finally:
                self._intake = self._withheld = None
            await self._pause(pause_after(failures))

    async def _is_recorded(self, error: GapError) -> bool:
        """Record a gap that showed while the stream was opened or read, unless that was done.

        Where it cannot be, or a new slot was made meanwhile, we look again later.
        """
        found = self._found
        if found is None:
            return True
        try:
            with translating():
                async with await connect(self._dsn) as conn:
                    return await gaps.record_gap(conn, found.slot, found.generation, str(error))
        except (DatabaseLostError, LoginRefusedError) as trouble:
            self._note(f"{error}; and that cannot be recorded: {trouble}", trouble)
            return False

    def _was_healthy(self, started: float) -> bool:
        """Whether the last stream brought something, or at least stood long: then try soon."""
        moved = self._intake is not None and self._intake.settled > self._began
        return moved or time.monotonic() - started > _HEALTHY

    def _note(self, trouble: str, error: Exception) -> None:
        if trouble != self._trouble:
            log.warning("reader.waiting", slot=self._settings.slot, error=error)
        self._trouble = trouble
        self.turned_at = time.monotonic()

    def log_in_as(self, dsn: str, replication_dsn: str) -> None:
        """Use these from the next connection on, and if one is waited for, try now."""
        self._dsn, self._replication_dsn = dsn, replication_dsn
        self._hurry.set()

    async def _pause(self, seconds: float) -> None:
        self._hurry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        self.turned_at = time.monotonic()

    async def _follow(self) -> None:
        """Open the stream where the checkpoint ends and ingest what comes."""
        async with AsyncExitStack() as stack:
            conn, evaluate, looker, filler = [
                await stack.enter_async_context(
                    await connect(self._dsn, application=f"walagent {part}", idle=idle)
                )
                for part, idle in (
                    # Who takes the slot over must not wait for a checkpoint that we hold, frozen.
                    ("intake", (self._settings.sender_timeout or _IDLE) + 1),
                    ("evaluate", _IDLE),
                    ("status", _IDLE),
                    ("backfill", _IDLE),
                )
            ]
            with translating():
                if self._failed:  # perhaps because we could not write; then leave the slot alone
                    await check_locks(conn, looker, self._settings.slot)
                login = self._replication_dsn
                checkpoint = await ensure_slot(conn, login, self._settings, _tell)
                self._found = checkpoint
                source = await check_source(conn, login, self._settings, checkpoint)
                self._let_in = True
                registry = Registry(await attachments.active_attachments(conn))
            options = self._options(registry, checkpoint)
            stream = await stack.enter_async_context(
                open_stream(login, options, fan_out=self._fan_out)
            )
            by_name = self._settings.plugin == "wal2json"
            parts = _Parts(conn, Evaluator(evaluate, by_name=by_name), looker, filler)
            await stream.during(self._read(stream, parts, source, checkpoint, registry))

    async def _read(
        self,
        stream: ReplicationStream,
        parts: _Parts,
        source: Source,
        found: checkpoints.Checkpoint,
        registry: Registry,
    ) -> None:
        """Take the checkpoint over, now that the slot is ours, and ingest what comes."""
        with translating():
            checkpoint = await checkpoints.take_checkpoint(
                parts.intake, self._settings.slot, self._name
            )
            if checkpoint.end_lsn != found.end_lsn:
                raise StreamLostError("the checkpoint moved while the stream was being opened")
            await self._note_timeline(parts.intake, checkpoint, source)
            running = await backfills.running(parts.intake)
            key = await attachments.secret_key(parts.intake)
            await pause_drifted(parts.intake)  # before anything starts that could not go on
        self._began, self._held = checkpoint.end_lsn, checkpoint
        self._intake = intake = Intake(
            stream,
            parts.intake,
            parts.evaluate,
            checkpoint,
            registry,
            key,
            backfilling=running,
            on_runs=self._on_runs,
            on_attached=self._heard_of,
            fixed_relations=self._fixed(registry),
            starter=self._starter,
            on_described=self._described.set,
            replicated=source.slot.failover,
            room=self._room,
        )
        self._trouble, self._failed = None, False
        log.info("reader.streaming", slot=self._settings.slot, lsn=str(checkpoint.end_lsn))
        self._on_streaming()
        evaluate = Evaluator(parts.filler)
        backfill = Backfill(
            parts.filler, evaluate, running, lambda: intake.settled, room=self._room
        )
        await self._beside(intake, backfill, parts.looker, checkpoint)

    async def _note_timeline(
        self, conn: AsyncConnection[Any], checkpoint: checkpoints.Checkpoint, source: Source
    ) -> None:
        """Write down that the server was promoted since the checkpoint was written last."""
        timeline = source.identity.timeline
        if timeline != checkpoint.timeline:
            await checkpoints.record_timeline(conn, checkpoint, timeline)
            log.warning(
                "timeline.changed",
                slot=checkpoint.slot,
                former=checkpoint.timeline,
                timeline=timeline,
            )

    async def _beside(
        self,
        intake: Intake,
        backfill: Backfill,
        looker: AsyncConnection[Any],
        checkpoint: checkpoints.Checkpoint,
    ) -> None:
        """Take changes in, and look after lag, backfills and ground; the first error ends all."""
        parts = [
            asyncio.create_task(intake.run(), name="intake"),
            asyncio.create_task(self._look(looker), name="status"),
            asyncio.create_task(self._fill(backfill), name="backfill"),
            asyncio.create_task(watch_drift(looker, self._described), name="ground"),
        ]
        if self._settings.plugin == "pgoutput":
            watching = watch_publications(looker, checkpoint)
            parts.append(asyncio.create_task(watching, name="publications"))
        if self._retention.runs is not None:
            pruning = keep_pruning(lambda: self._dsn, self._retention)
            parts.append(asyncio.create_task(pruning, name="retention"))
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _look(self, conn: AsyncConnection[Any]) -> None:
        """Look at slot and runs now and then; while somebody has our tables locked, do without."""
        turns = 0
        while True:
            with suppress(TimeoutError), translating():
                async with asyncio.timeout(_LOOK):
                    seen = await status.read_status(conn, self._settings.slot)
                    self._note_withheld(seen)
                    metrics.approvals_pending.set(seen.approvals)
                    if turns % 6 == 0:
                        await self._count(conn)
            turns += 1
            self.turned_at = time.monotonic()
            await asyncio.sleep(_LOOK)

    async def _count(self, conn: AsyncConnection[Any]) -> None:
        counts = await status.count_runs(conn)
        for state in metrics.RUN_STATES:
            metrics.runs.labels(state).set(counts.get(state, 0))
        metrics.set_budgets(
            (each.name, each.spent, each.reserved) for each in await budgets.standings(conn)
        )

    def _note_withheld(self, seen: status.Status) -> None:
        """Say that the server keeps changes back, once two looks in a row have seen it."""
        if seen.withheld and self._withholding and not self._withheld:
            log.warning("reader.blocked", slot=self._settings.slot)
        self._withheld = _WITHHELD if seen.withheld and self._withholding else None
        self._withholding = seen.withheld

    async def _fill(self, backfill: Backfill) -> None:
        while True:
            self.attached.clear()
            while await backfill.work_one():
                self._on_runs()
            try:
                async with asyncio.timeout(30):
                    await self.attached.wait()
            except TimeoutError:
                pass

    def _heard_of(self, attachment: Attachment) -> None:
        log.info("attachment.activated", attachment=attachment.name, version=attachment.version)
        self.attached.set()

    def _options(self, registry: Registry, checkpoint: checkpoints.Checkpoint) -> StreamOptions:
        settings = self._settings
        return StreamOptions(
            slot=settings.slot,
            plugin=settings.plugin,
            publications=PUBLICATIONS,
            tables=(("agent", "attachment"), *sorted(registry.relations | self._relations)),
            protocol=settings.protocol,
            start=checkpoint.end_lsn,
            status_interval=settings.status_interval,
            sender_timeout=settings.sender_timeout,
            stall_timeout=settings.stall_timeout,
        )

    def _fixed(self, registry: Registry) -> frozenset[tuple[str, str]] | None:
        """wal2json is told its tables when the stream opens; a publication is asked as it goes."""
        if self._settings.plugin == "pgoutput":
            return None
        return registry.relations | self._relations


def _tell(blockers: Sequence[Blocker]) -> None:
    for blocker in blockers:
        log.warning(
            "slot.creation_blocked",
            pid=blocker.pid,
            seconds=round(blocker.age),
            application=blocker.application_name,
        )
