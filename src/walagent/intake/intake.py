"""From items of the WAL to runs: gather, evaluate, insert, move the checkpoint on, confirm.

One rule holds it all together: the runs of whole transactions and the checkpoint's new position
commit together, and only then is that position confirmed.  So a crash anywhere costs a
repetition, and a repeated transaction is known by its position.

What is there is ingested at one go: while one group commits, the next one gathers in the
stream's buffer, so groups grow with the load and stay small when it is quiet.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from psycopg import AsyncConnection

from walagent import faults, metrics
from walagent.attachment import Attachment
from walagent.change import Begin, Commit, Idle, Item
from walagent.intake.batching import Found, Gathered, Gathering
from walagent.intake.conditions import Deferred, Evaluator, Raised, Verdict, match_of
from walagent.intake.new_runs import new_run
from walagent.intake.standby_hold import HEARTBEAT, Replicated
from walagent.lsn import Lsn
from walagent.matching.document import ROOM, Room
from walagent.matching.match import Match, TooDeep
from walagent.matching.registry import Registry
from walagent.run import Claim, NewRun
from walagent.store import checkpoint as checkpoints
from walagent.store.checkpoint import Checkpoint, Start
from walagent.store.errors import translating
from walagent.store.pausing import pause_broken

IDLE_SECONDS = 30.0  # how long a position without runs may wait to be written down
IDLE_BYTES = 16 << 20  # of WAL passed meanwhile
# Between two pieces of a large transaction, the stream and the evaluate may take their time.
_REST = "set local idle_in_transaction_session_timeout = '60s'"


class Stream(Protocol):
    """What intake needs of a replication stream."""

    async def next_batch(self) -> list[Item]:
        """Wait for items and take all that are there."""
        ...

    def confirm(self, lsn: Lsn) -> None:
        """Say that everything up to *lsn* is durable on our side."""
        ...

    @property
    def received(self) -> Lsn:
        """Up to where everything has been read."""
        ...


class Starter(Protocol):
    """A worker in this process, which can be given runs as they are inserted."""

    def offer(self) -> Start | None:
        """Say what it could take now; None when it has no slot free."""
        ...

    def start(self, claims: Sequence[Claim]) -> None:
        """Work runs that were given to it."""
        ...


class ResubscribeError(Exception):
    """The stream was opened for fewer tables than are attached now; open it again, for *relations*.

    Raised before the attaching transaction is ingested, so that it is read again with all of its
    own changes to those tables.
    """

    def __init__(self, relations: frozenset[tuple[str, str]]) -> None:
        super().__init__("the stream does not carry all attached tables")
        self.relations = relations


class Intake:
    """Takes one slot's changes in.  `take_one()` is a step of `run()`, for tests."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it reads, writes, knows, and whom it tells
        self,
        stream: Stream,
        conn: AsyncConnection[Any],
        evaluate: Evaluator,
        checkpoint: Checkpoint,
        registry: Registry,
        key: bytes,
        *,
        backfilling: set[int] | None = None,
        on_runs: Callable[[], None] = lambda: None,
        on_attached: Callable[[Attachment], None] = lambda _: None,
        fixed_relations: frozenset[tuple[str, str]] | None = None,
        starter: Starter | None = None,
        on_described: Callable[[], None] = lambda: None,
        replicated: bool = False,
        room: Room = ROOM,
    ) -> None:
        """Take over *conn*, a connection of intake's own in autocommit mode.

        Args:
            key: `agent_internal.secret`, which proves our own write-backs.
            backfilling: attachments whose backfill is going on; shared with `Backfill`.
            on_runs: called after runs were committed.
            on_attached: called after an attachment's new version came into effect, durably.
            fixed_relations: the relations the stream was opened for, if it cannot learn of more.
            starter: a worker in this process, to spare quiet times a claim and its commit.
            on_described: called when an attached table was described, new or changed.
            room: how much of a change a run keeps.
            replicated: whether standbys have copies of the slot.
        """
        self._stream = stream
        self._conn = conn
        self._evaluate = evaluate
        self._checkpoint = checkpoint
        running: set[int] = set() if backfilling is None else backfilling
        self._gathering = Gathering(registry, key, running, checkpoint.end_lsn)
        self._on_runs = on_runs
        self._on_attached = on_attached
        self._fixed = fixed_relations
        self._starter = starter
        self._on_described = on_described
        self._room = room
        self._replicated = Replicated(checkpoint.end_lsn) if replicated else None
        self._lost: dict[int, tuple[Attachment, str]] = {}  # seen to have lost their ground
        self._spilled: set[int] | None = None  # queues of the open transaction's inserted runs
        self._durable = checkpoint.end_lsn  # this much of what is gathered is written down
        self._written_at = time.monotonic()
        self._patience = HEARTBEAT if replicated else IDLE_SECONDS
        self.settled = checkpoint.end_lsn  # the runs of all changes before it are committed
        self.progressed_at = time.monotonic()  # when the stream last told us something

    async def run(self) -> None:
        """Take changes in for ever.

        Raises:
            StreamLostError, DatabaseLostError: start over from the checkpoint.
            FencedError: a newer reader is at work.
            DecodeError: the WAL holds what we cannot read; nothing of it was confirmed.
            ResubscribeError: open the stream again, for other tables.
        """
        while True:
            await self.take_one()

    async def take_one(self) -> None:
        """Take in what the stream has now."""
        batch = await self._stream.next_batch()
        self.progressed_at = time.monotonic()
        gathering = self._gathering
        with translating():
            for item in batch:
                gathering.take(item)
                if self._fixed is not None:
                    await self._check_relations(self._fixed)
                if self._spilled is not None and isinstance(item, Commit):
                    await self._end_spilled()
                elif gathering.open is not None and gathering.open.gathered.is_large:
                    await self._spill(gathering.open.gathered)
                elif gathering.group.is_large:
                    await self._write_group()
            if self._spilled is None:
                await self._write_group()
                await self._write_idle(batch[-1])
                await self._check_drift()
            if self._replicated is not None:
                await self._confirm_replicated(self._replicated)

    async def _pause_lost(self) -> None:
        """Pause what has lost its ground: best before its deferred runs are there to be claimed.

        It may be done again, and after a crash it is: by whoever sees it next.
        """
        lost, self._lost = self._lost, {}
        for attachment, reason in lost.values():
            await pause_broken(self._conn, attachment.id, attachment.name, reason)

    async def _check_drift(self) -> None:
        """Let somebody look at a table that was told anew."""
        await self._pause_lost()
        if self._gathering.registry.described:
            self._gathering.registry.described = False
            self._on_described()

    async def _check_relations(self, fixed: frozenset[tuple[str, str]]) -> None:
        relations = self._gathering.registry.relations
        if relations <= fixed:
            return
        if self._spilled is None:
            await self._write_group()
        raise ResubscribeError(relations)

    # Whole transactions.

    async def _write_group(self) -> None:
        """Commit the runs of the complete transactions, and the position after them."""
        gathering = self._gathering
        group, gathering.group = gathering.group, Gathered()
        if not group.is_empty:
            runs = await self._runs(group.found)  # planted: confirm-before-commit
            await self._pause_lost()
            special = group.effects or group.seen or any(map(_is_special, runs))
            if special:  # planted: runs-first/path
                async with self._conn.transaction():
                    await self._insert(runs, group)
                    await self._advance_checkpoint(_queues(runs))  # planted: runs-first/commit
                self._committed(has_runs=bool(runs))
            else:
                await self._take_in(runs)
        self.settled = gathering.passed

    async def _take_in(self, runs: Sequence[NewRun]) -> None:
        """Insert runs and move the checkpoint on, in one round trip; start what can start."""
        gathering = self._gathering
        offer = self._starter.offer() if self._starter and runs else None
        claims = await checkpoints.take_in(
            self._conn,
            self._checkpoint,
            runs,
            gathering.commit_lsn,
            gathering.passed,
            offer,
            gathering.committed_at,
        )
        if claims and self._starter:
            self._starter.start(claims)
        self._committed(has_runs=len(claims) < len(runs))

    async def _insert(self, runs: Sequence[NewRun], group: Gathered) -> None:
        plain = [run for run in runs if run.debounce is None]
        if plain:
            await checkpoints.insert_runs(self._conn, self._checkpoint, plain)
        for run in runs:
            if run.debounce is not None:
                await checkpoints.collect_run(self._conn, self._checkpoint, run)
        if deferred := [run for run in runs if run.deferred is not None]:
            await checkpoints.defer_changes(self._conn, self._checkpoint, deferred)
        if group.effects:
            await checkpoints.record_effects(self._conn, group.effects)
        if group.seen:
            await checkpoints.record_seen(self._conn, self._checkpoint.generation, group.seen)
        faults.hit("intake.runs_inserted")

    async def _advance_checkpoint(self, queues: Iterable[int] = ()) -> None:
        gathering = self._gathering
        await checkpoints.advance_checkpoint(
            self._conn,
            self._checkpoint,
            gathering.commit_lsn,
            gathering.passed,
            queues,
            gathering.committed_at,
        )
        faults.hit("intake.checkpoint_advanced")

    def _committed(self, *, has_runs: bool) -> None:
        """The checkpoint is durable: confirm it, and tell whoever waits for it."""
        faults.hit("intake.committed")
        self._durable, self._written_at = self._gathering.passed, time.monotonic()
        if self._replicated is None:
            self._stream.confirm(self._durable)
            faults.hit("intake.confirmed")
        if has_runs:
            self._on_runs()
        for attachment in self._gathering.attached:
            self._on_attached(attachment)
        self._gathering.attached.clear()

    async def _confirm_replicated(self, replicated: Replicated) -> None:
        """Confirm what standbys have in their copy of the checkpoint, too."""
        if self._durable > replicated.held:
            replicated.hold(self._durable, await checkpoints.wal_flushed(self._conn))
        if (position := replicated.release(self._stream.received)) is not None:
            self._stream.confirm(position)
            faults.hit("intake.confirmed")

    # One that is too large to gather.

    async def _spill(self, gathered: Gathered) -> None:
        """Insert what a large transaction has brought so far; it commits with the rest of it.

        The checkpoint's transaction stays open until the end, so nobody sees half of it and a lost
        connection takes it all back.  What was complete before it is committed first.
        """
        if self._spilled is None:
            await self._write_group()
            await self._conn.execute("begin")
            await self._conn.execute(_REST)
            self._spilled = set()
        runs = await self._runs(gathered.found)
        await self._insert(runs, gathered)
        self._spilled.update(_queues(runs))
        if self._gathering.open is not None:
            self._gathering.open.gathered = Gathered()

    async def _end_spilled(self) -> None:
        """Commit a large transaction's runs; its rest has just joined the empty group."""
        rest, self._gathering.group = self._gathering.group, Gathered()
        await self._spill(rest)
        queues, self._spilled = self._spilled or set(), None
        await self._advance_checkpoint(queues)
        await self._conn.execute("commit")
        self._committed(has_runs=True)
        self.settled = self._gathering.passed

    async def _write_idle(self, last: Item) -> None:
        """Write a position down that no run needed, but not often: writing makes WAL itself.

        A server that asks for an answer may be waiting for it to shut down: it gets one at once.
        """
        passed = self._gathering.passed
        asked = isinstance(last, Idle) and last.reply_requested
        waited = time.monotonic() - self._written_at
        if passed > self._durable and (
            asked or waited > self._patience or passed - self._durable > IDLE_BYTES
        ):
            await self._advance_checkpoint()
            self._committed(has_runs=False)

    # From matches to runs.

    async def _runs(self, found: Sequence[tuple[Begin, Found]]) -> list[NewRun]:
        begins = {id(one): begin for begin, one in found}
        candidates = [one for _, one in found if isinstance(one, Match)]
        verdicts = await self._evaluate.evaluate(candidates)
        runs = [new_run(begins[id(match_of(v))], v, self._room) for v in verdicts]
        deep = [new_run(begin, one, self._room) for begin, one in found if isinstance(one, TooDeep)]
        for verdict in verdicts:
            if isinstance(verdict, Deferred):
                attachment = verdict.match.attachment
                self._lost[attachment.id] = attachment, verdict.reason
        _count(len(candidates), verdicts, len(deep))
        return [*runs, *deep]


def _count(candidates: int, verdicts: Sequence[Verdict], deep: int) -> None:
    failed = sum(1 for verdict in verdicts if isinstance(verdict, Raised))
    deferred = sum(1 for verdict in verdicts if isinstance(verdict, Deferred))
    metrics.changes.labels("unmatched").inc(candidates - len(verdicts))
    metrics.changes.labels("failed").inc(failed)
    metrics.changes.labels("deferred").inc(deferred)
    metrics.changes.labels("matched").inc(len(verdicts) - failed - deferred)
    metrics.changes.labels("skipped").inc(deep)


def _is_special(run: NewRun) -> bool:
    """Whether a run needs more than being inserted."""
    return run.debounce is not None or run.deferred is not None


def _queues(runs: Iterable[NewRun]) -> set[int]:
    return {run.attachment_id for run in runs}
