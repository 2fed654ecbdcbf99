"""From items of the WAL to runs: match, judge, insert, move the ledger on, confirm.

One rule holds it all together: the runs of whole transactions and the ledger's new position
commit together, and only then is that position confirmed.  So a crash anywhere costs a
repetition, and a repeated transaction is known by its position.

What is there is taken in at one go: while one group commits, the next one gathers in the
stream's buffer, so groups grow with the load and stay small when it is quiet.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from psycopg import AsyncConnection

from walagent import faults, metrics
from walagent.attachment import Attachment
from walagent.change import Begin, Change, Commit, Idle, Item, Op, Piece, Tag
from walagent.engine.judge import Judge, Raised
from walagent.lsn import Lsn
from walagent.matching import document
from walagent.matching.match import Match, TooDeep, matches
from walagent.matching.origin import Origin, origin_of
from walagent.matching.registry import Attached, Detached, Registry, is_ours, read_attaching
from walagent.run import NewRun, RunState
from walagent.store import ledger as ledgers
from walagent.store.ledger import Effect, Ledger
from walagent.store.translate import translating

SPILL_AFTER = 5000  # matches of one open transaction; then its runs go in piece by piece
IDLE_SECONDS = 30.0  # how long a position without runs may wait to be written down
IDLE_BYTES = 16 << 20  # of WAL passed meanwhile


class Stream(Protocol):
    """What intake needs of a replication stream."""

    async def next_batch(self) -> list[Item]:
        """Wait for items and take all that are there."""
        ...

    def confirm(self, lsn: Lsn) -> None:
        """Say that everything up to *lsn* is durable on our side."""
        ...


class ResubscribeError(Exception):
    """The stream was opened for other tables than are attached now; open it again."""


@dataclass(slots=True)
class _Transaction:
    """The transaction that the stream is in the middle of."""

    begin: Begin
    origin: Origin | None = None
    found: list[Match | TooDeep] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    seen: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Group:
    """Complete transactions that wait for the next ledger commit."""

    found: list[tuple[Begin, Match | TooDeep]] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    seen: list[tuple[int, str]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.found or self.effects or self.seen)


class Intake:
    """Takes one slot's changes in.  `take_one()` is a step of `run()`, for tests."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it reads, writes, knows, and whom it tells
        self,
        stream: Stream,
        conn: AsyncConnection[Any],
        judge: Judge,
        ledger: Ledger,
        registry: Registry,
        key: bytes,
        *,
        backfilling: set[int] | None = None,
        on_runs: Callable[[], None] = lambda: None,
        on_attached: Callable[[Attachment], None] = lambda _: None,
        fixed_relations: frozenset[tuple[str, str]] | None = None,
    ) -> None:
        """Take over *conn*, a connection of intake's own in autocommit mode.

        Args:
            key: `agent.secret`, which proves our own write-backs.
            backfilling: attachments whose backfill is going on; shared with `Backfill`.
            on_runs: called after runs were committed.
            on_attached: called after an attachment's new version came into effect, durably.
            fixed_relations: the relations the stream was opened for, if it cannot learn of more.
        """
        self._stream = stream
        self._conn = conn
        self._judge = judge
        self._ledger = ledger
        self._registry = registry
        self._key = key
        self._backfilling: set[int] = set() if backfilling is None else backfilling
        self._on_runs = on_runs
        self._on_attached = on_attached
        self._fixed = fixed_relations
        self._open: _Transaction | None = None
        self._spilled: set[int] | None = None  # lanes of the open transaction's inserted runs
        self._group = _Group()
        self._attached: list[Attachment] = []
        self._commit_lsn = ledger.commit_lsn
        self._passed = ledger.end_lsn  # everything before it is dealt with
        self._settled = ledger.end_lsn  # and committed
        self._durable = ledger.end_lsn  # and this much of it is written down
        self._written_at = time.monotonic()
        self.progressed_at = (
            time.monotonic()
        )  # for liveness: when the stream last told us something

    @property
    def settled(self) -> Lsn:
        """Up to where every change is dealt with: its runs, if any, are committed."""
        return self._settled

    async def run(self) -> None:
        """Take changes in for ever.

        Raises:
            StreamLostError, DatabaseLostError: start over from the ledger.
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
        with translating():
            for item in batch:
                if self._take(item):
                    await self._spill()
                elif self._spilled is not None and isinstance(item, Commit):
                    await self._end_spilled(item)
            await self._write_group()
            if self._spilled is None:
                self._settled = self._passed
            await self._write_idle(batch[-1])
        if (
            self._fixed is not None
            and self._open is None
            and not self._registry.relations <= self._fixed
        ):
            raise ResubscribeError

    # Understanding items.

    def _take(self, item: Item) -> bool:
        """Take an item; True when the open transaction has grown too large to keep."""
        match item:
            case Piece(changes):
                return self._take_changes(self._opened, changes)
            case Begin():
                self._open = _Transaction(item)
            case Commit() if self._spilled is None:
                self._close(item)
            case Tag() if not self._opened.found:
                self._opened.origin = origin_of(item, self._opened.begin.xid, self._key)
            case Idle(wal_end) if self._open is None:
                self._passed = max(self._passed, wal_end)
            case _:
                pass
        return False

    @property
    def _opened(self) -> _Transaction:
        assert self._open is not None  # noqa: S101 - the stream yields these only inside one
        return self._open

    def _take_changes(self, transaction: _Transaction, changes: Sequence[Change]) -> bool:
        origin, found, registry = transaction.origin, transaction.found, self._registry
        for change in changes:
            if is_ours(change.relation):
                self._take_attaching(transaction, change)
                continue
            attachments = registry.of(change.relation)
            if not attachments:
                continue
            found.extend(matches(change, attachments, origin))
            if self._backfilling and change.op is Op.INSERT:
                self._note_seen(transaction, change, attachments)
        return len(found) >= SPILL_AFTER

    def _take_attaching(self, transaction: _Transaction, change: Change) -> None:
        """Let an attachment come into effect, or end, at this very place in the WAL."""
        lsn = transaction.begin.commit_lsn
        match read_attaching(change):
            case Attached(attachment, definition):
                if self._registry.put(attachment):
                    transaction.effects.append(
                        Effect(attachment.id, attachment.version, definition, lsn)
                    )
                    if attachment.backfill and attachment.version == 1:
                        self._backfilling.add(attachment.id)
                    self._attached.append(attachment)
            case Detached(attachment_id):
                self._registry.remove(attachment_id)
                transaction.effects.append(Effect(attachment_id, None, None, lsn))
            case None:
                pass

    def _note_seen(
        self, transaction: _Transaction, change: Change, attachments: Iterable[Attachment]
    ) -> None:
        for attachment in attachments:
            if attachment.id in self._backfilling:
                key = document.key_of(change.new or {}, attachment)
                transaction.seen.append((attachment.id, key or ""))

    def _close(self, commit: Commit) -> None:
        """Put the complete transaction into the group."""
        done, self._open = self._opened, None
        if done.found or done.effects or done.seen:
            self._group.found.extend((done.begin, found) for found in done.found)
            self._group.effects.extend(done.effects)
            self._group.seen.extend(done.seen)
        self._commit_lsn = commit.commit_lsn
        self._passed = max(self._passed, commit.end_lsn)

    # Writing.

    async def _write_group(self) -> None:
        """Commit the runs of the complete transactions, and the position after them."""
        if self._group.is_empty or self._spilled is not None:
            return
        group, self._group = self._group, _Group()
        runs = await self._runs(group.found)
        plain = [run for run in runs if run.debounce is None]
        if len(plain) == len(runs) and not group.effects and not group.seen:
            await ledgers.take_in(self._conn, self._ledger, runs, self._commit_lsn, self._passed)
        else:
            async with self._conn.transaction():
                await self._insert(runs, group.effects, group.seen)
                await ledgers.move_progress(
                    self._conn, self._ledger, self._commit_lsn, self._passed, _lanes(runs)
                )
                faults.hit("intake.progress_moved")
        self._committed(runs)

    async def _insert(
        self,
        runs: Sequence[NewRun],
        effects: Sequence[Effect],
        seen: Sequence[tuple[int, str]],
    ) -> None:
        plain = [run for run in runs if run.debounce is None]
        if plain:
            await ledgers.insert_runs(self._conn, self._ledger, plain)
        for run in runs:
            if run.debounce is not None:
                await ledgers.collect_run(self._conn, self._ledger, run)
        if effects:
            await ledgers.record_effects(self._conn, effects)
        if seen:
            await ledgers.record_seen(self._conn, seen)
        faults.hit("intake.runs_inserted")

    async def _spill(self) -> None:
        """Insert what a large transaction has brought so far; it commits with the rest of it.

        The ledger's transaction stays open until the end, so nobody sees half of it and a lost
        connection takes it all back.  What was complete before it is committed first.
        """
        transaction = self._opened
        if self._spilled is None:
            await self._write_group()
            await self._conn.execute("begin")
            self._spilled = set()
        runs = await self._runs([(transaction.begin, found) for found in transaction.found])
        await self._insert(runs, transaction.effects, transaction.seen)
        self._spilled.update(_lanes(runs))
        transaction.found, transaction.effects, transaction.seen = [], [], []

    async def _end_spilled(self, commit: Commit) -> None:
        """Commit a large transaction's runs."""
        await self._spill()
        lanes, self._spilled, self._open = self._spilled or set(), None, None
        self._commit_lsn, self._passed = commit.commit_lsn, max(self._passed, commit.end_lsn)
        await ledgers.move_progress(self._conn, self._ledger, self._commit_lsn, self._passed, lanes)
        faults.hit("intake.progress_moved")
        await self._conn.execute("commit")
        self._committed(())
        self._on_runs()

    def _committed(self, runs: Sequence[NewRun]) -> None:
        """The ledger is durable: confirm it, and tell whoever waits for it."""
        faults.hit("intake.committed")
        self._durable, self._written_at = self._passed, time.monotonic()
        self._stream.confirm(self._durable)
        faults.hit("intake.confirmed")
        if runs:
            self._on_runs()
        for attachment in self._attached:
            self._on_attached(attachment)
        self._attached.clear()

    async def _write_idle(self, last: Item) -> None:
        """Write a position down that no run needed, but not often: writing makes WAL itself.

        A server that asks for an answer may be waiting for it to shut down: it gets one at once.
        """
        if self._passed <= self._durable or self._spilled is not None:
            return
        asked = isinstance(last, Idle) and last.reply_requested
        waited = time.monotonic() - self._written_at
        if asked or waited > IDLE_SECONDS or self._passed - self._durable > IDLE_BYTES:
            await ledgers.move_progress(self._conn, self._ledger, self._commit_lsn, self._passed)
            self._committed(())

    # From matches to runs.

    async def _runs(self, found: Sequence[tuple[Begin, Match | TooDeep]]) -> list[NewRun]:
        begins = {id(one): begin for begin, one in found}
        candidates = [one for _, one in found if isinstance(one, Match)]
        verdicts = await self._judge.judge(candidates)
        metrics.changes.labels("unmatched").inc(len(candidates) - len(verdicts))
        runs = [_new_run(begins[id(_match_of(v))], v) for v in verdicts]
        deep = [_new_run(begin, one) for begin, one in found if isinstance(one, TooDeep)]
        metrics.changes.labels("matched").inc(len(runs))
        metrics.changes.labels("skipped").inc(len(deep))
        return [*runs, *deep]


def _match_of(verdict: Match | Raised) -> Match:
    return verdict.match if isinstance(verdict, Raised) else verdict


def _lanes(runs: Iterable[NewRun]) -> set[int]:
    return {run.attachment_id for run in runs}


def _new_run(begin: Begin, found: Match | Raised | TooDeep) -> NewRun:
    match = found.match if isinstance(found, Raised) else found
    attachment, change, origin = match.attachment, match.change, match.origin
    state, error = _state_of(found)
    return NewRun(
        attachment_id=attachment.id,
        attachment_version=attachment.version,
        commit_lsn=begin.commit_lsn,
        ordinal=change.ordinal,
        committed_at=begin.committed_at,
        change=document.document(change, attachment),
        key=document.key_of(document.row_of(change), attachment),
        lane=document.lane_of(change, attachment),
        max_attempts=attachment.max_attempts,
        debounce=attachment.debounce if state is RunState.PENDING else None,
        cause_run=None if origin is None else origin.run_id,
        depth=0 if origin is None else origin.depth + 1,
        state=state,
        error=error,
    )


def _state_of(found: Match | Raised | TooDeep) -> tuple[RunState, dict[str, Any] | None]:
    match found:
        case Match():
            return RunState.PENDING, None
        case Raised(_, sqlstate, message):
            reason = f"the condition raised an error on this row: {message}"
            return RunState.DEAD, {"reason": reason, "sqlstate": sqlstate}
        case TooDeep(attachment, _, origin):
            reason = (
                f"agents have answered agents {origin.depth + 1} times in a row, and"
                f" {attachment.name} allows {attachment.max_depth} (max_depth)"
            )
            return RunState.SKIPPED, {"reason": reason}
