"""A new slot after a gap, and what becomes of the rows that were changed in it.

publications mended → old slot dropped → new slot, with a snapshot of where it begins → runs of the
gap's rows as the snapshot shows them, choices, gap and the checkpoint's next generation: one commit

So every change has one way to its run.  What had committed before the new slot begins is in the
snapshot, and is worked if somebody wants it to; what commits later comes by the slot.  Whoever dies
on the way leaves a slot that is ahead of the checkpoint, which is a gap: it is done again.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection, Error

from walagent.attachment import Attachment
from walagent.config import Replication
from walagent.errors import ConfigError, GapError, SlotBusyError, WalagentError
from walagent.intake.backfill import PresentRow, present_rows, read_as, runs_of
from walagent.intake.conditions import Evaluator
from walagent.lsn import Lsn
from walagent.matching.document import ROOM, Room
from walagent.replication.bootstrap import Waiting, alone, as_of, can_mend, clock, publications_of
from walagent.replication.source import check_source
from walagent.store import backfills, gaps, resyncing
from walagent.store import checkpoint as checkpoints
from walagent.store.checkpoint import Checkpoint, to_plain
from walagent.store.connections import connect
from walagent.store.gaps import Choice, Gap, Made
from walagent.store.resyncing import Candidate, Former, Span
from walagent.wal.slots import (
    NewSlot,
    SystemIdentity,
    drop_slot,
    identify_system,
    inspect_slot,
    new_slot,
)

SKIP = Choice("skip")
# A transaction that had begun when the gap did may have committed in it, and its now() lies before.
# So rows of some time before are looked at, too; those that were ingested are left alone.
OVERLAP = timedelta(minutes=10)
_AT_ONCE = 1000  # rows; wide ones have a megabyte

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Situation:
    """What there is to decide about."""

    checkpoint: Checkpoint
    gaps: Sequence[Gap]
    attachments: Sequence[Candidate]


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided.  Attachments that it does not name are skipped."""

    choices: Mapping[str, Choice] = field(default_factory=dict[str, Choice])
    overlap: timedelta = OVERLAP
    room: Room = ROOM


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it."""

    start: Lsn
    made: Sequence[Made]


async def look(conn: Connection, replication_dsn: str, settings: Replication) -> Situation:
    """Find out what is lost, and record it if nobody has yet.

    Raises:
        ConfigError: there is no checkpoint, so nothing can be lost.
        SlotBusyError: somebody reads the slot, so it is well.
    """
    checkpoint = await checkpoints.read_checkpoint(conn, settings.slot)
    if checkpoint is None:
        raise ConfigError(
            f"slot {settings.slot} was never read, so nothing of it is lost", hint="walagent init"
        )
    with suppress(GapError):
        await check_source(conn, replication_dsn, settings, checkpoint)
    return Situation(
        checkpoint, await gaps.open_gaps(conn, settings.slot), await resyncing.candidates(conn)
    )


def check_choice(candidate: Candidate, choice: Choice) -> None:
    """See that a choice can be carried out.

    Raises:
        ConfigError: the table is gone, or has no key or no such column.
    """
    if choice.kind == "skip":
        return
    name, relation = candidate.name, candidate.relation
    if not candidate.has_table:
        raise ConfigError(f"the table of {name} is gone", hint=f"--attachment {name}=skip")
    if not candidate.has_key:
        raise ConfigError(
            f"{name}: {relation} has no primary key, so its rows cannot be told apart",
            hint=f"--attachment {name}=skip, or add a primary key and attach again",
        )
    if choice.kind == "since" and choice.column not in candidate.columns:
        known = ", ".join(candidate.columns) or "none"
        raise ConfigError(
            f"{name}: {relation} has no column {choice.column} that holds a time",
            hint=f"columns of type timestamptz, timestamp or date: {known}",
        )


async def resync(  # noqa: PLR0913 - two logins, settings, the plan, and who wants to hear
    conn: Connection,
    dsn: str,
    replication_dsn: str,
    settings: Replication,
    plan: Plan,
    *,
    waiting: Waiting = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
) -> Done:
    """Drop the slot if it is there, make it anew, and carry the plan out.

    Raises:
        SlotBusyError: somebody reads the slot; stop that process first.
        ConfigError: a choice cannot be carried out.
        PreconditionError: the server or the role is not set up for it.
    """
    async with alone(conn):
        if await gaps.may_publish(conn):
            await gaps.adopt_tables(conn)
        await _check_plan(conn, plan)
        mend = await can_mend(conn, settings)
        await _drop(conn, replication_dsn, settings)
        if mend:
            await gaps.publish_again(conn)
        at = await clock(conn)
        async with (
            _new_slot(replication_dsn, settings, waiting) as slot,
            await connect(dsn, application="walagent resync") as past,
            await connect(dsn, application="walagent evaluate") as evaluate,
            as_of(past, slot.snapshot),
        ):
            identity = await identify_system(replication_dsn)
            work = _Resync(conn, past, Evaluator(evaluate), settings, plan, tell)
            async with conn.transaction():
                return await work.settle(slot, identity, at)


async def _check_plan(conn: Connection, plan: Plan) -> None:
    """See that everything can be carried out, before anything is."""
    known = {candidate.name: candidate for candidate in await resyncing.candidates(conn)}
    for name, choice in plan.choices.items():
        if name not in known:
            raise ConfigError(f"there is no attachment {name}", hint="walagent agents lists them")
        check_choice(known[name], choice)
        if choice.kind != "skip":
            attachment = await resyncing.definition(conn, known[name].id, known[name].version)
            async with conn.transaction(force_rollback=True):
                await read_as(conn, attachment)
                await resyncing.probe(conn, attachment)


async def _drop(conn: Connection, replication_dsn: str, settings: Replication) -> None:
    state = await inspect_slot(conn, settings.slot)
    if state is not None and state.active_pid is not None:
        raise SlotBusyError(
            f"slot {settings.slot} is read by the backend with pid {state.active_pid}",
            hint="stop the process that reads it first",
        )
    async with await connect(replication_dsn, application="walagent cli") as reader:
        await drop_slot(reader, settings.slot)


@asynccontextmanager
async def _new_slot(
    replication_dsn: str, settings: Replication, waiting: Waiting
) -> AsyncGenerator[NewSlot]:
    """Make the slot, and drop it again when the block fails: nobody would read it."""
    async with new_slot(
        replication_dsn,
        settings.slot,
        settings.plugin,
        publications=publications_of(settings),
        failover=settings.failover,
        waiting=waiting,
    ) as slot:
        try:
            yield slot
        except BaseException:
            with suppress(WalagentError, Error):
                async with await connect(replication_dsn, application="walagent cli") as conn:
                    await drop_slot(conn, settings.slot)
            raise


class _Resync:
    """Reads on *past*, which shows the database as the slot begins; writes on *conn*."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it reads, writes, asks and tells
        self,
        conn: Connection,
        past: Connection,
        evaluate: Evaluator,
        settings: Replication,
        plan: Plan,
        tell: Callable[[str], None],
    ) -> None:
        self._conn = conn
        self._past = past
        self._evaluate = evaluate
        self._slot = settings.slot
        self._plugin = settings.plugin
        self._plan = plan
        self._tell = tell
        self._zone = "UTC"

    async def settle(self, slot: NewSlot, identity: SystemIdentity, at: datetime) -> Done:
        """Write everything, in the caller's transaction."""
        former = await checkpoints.read_checkpoint(self._conn, self._slot)
        self._zone = await resyncing.time_zone(self._conn)
        found = await resyncing.candidates(self._past)
        if former is not None:
            reason = "a new slot was made"
            await gaps.record_gap(self._conn, self._slot, former.generation, reason)
        lost = await gaps.open_gaps(self._conn, self._slot)
        generation = await checkpoints.open_checkpoint(
            self._conn,
            self._slot,
            system_id=identity.system_id,
            timeline=identity.timeline,
            plugin=self._plugin,
            start=slot.start,
            existing=[(each.id, each.version) for each in found],
            at=at,
        )
        made = [await self._carry_out(each, generation, former, lost) for each in found]
        for gap in lost:
            await gaps.settle_gap(self._conn, gap, made, slot.start)
        for one in made:
            if one.runs:
                await backfills.wake(self._conn, one.attachment_id)
        return Done(slot.start, made)

    async def _carry_out(
        self, candidate: Candidate, generation: int, former: Checkpoint | None, lost: Sequence[Gap]
    ) -> Made:
        choice = self._plan.choices.get(candidate.name, SKIP)
        match choice.kind:
            case "all":
                await resyncing.replace_backfills(self._conn, candidate.id)
                await resyncing.ask_backfill(self._conn, candidate, generation)
            case "since" if former is not None and former.committed_at is not None:
                begins = min((gap.since for gap in lost if gap.since), default=former.committed_at)
                since = begins - self._plan.overlap
                return await self._run_on_changed(
                    candidate, choice, generation, Span(since, former.committed_at)
                )
            case _:
                pass
        return Made(candidate.id, candidate.name, choice)

    async def _run_on_changed(
        self, candidate: Candidate, choice: Choice, generation: int, span: Span
    ) -> Made:
        """Insert runs for the rows that have changed; `is_known` says which are left out."""
        attachment = await resyncing.definition(self._conn, candidate.id, candidate.version)
        column = choice.column or ""
        rows = runs = 0
        # A savepoint, so that each attachment is read as its own role.
        async with self._past.transaction(force_rollback=True):
            await read_as(self._past, attachment)
            undated = await resyncing.count_undated(self._past, attachment, column)
            await resyncing.open_changed(
                self._past, attachment, column, candidate.columns[column], span, self._zone
            )
            await resyncing.gather_runs(self._conn, attachment.id)
            unfinished = attachment.id in await backfills.running(self._conn)
            while portion := await self._fetch(attachment):
                found = await self._missed(attachment, column, portion)
                await backfills.insert_runs(self._conn, attachment, generation, found)
                if unfinished:  # one that goes through the table would come to them as well
                    seen = [(attachment.id, row.key) for row in portion]
                    await checkpoints.record_seen(self._conn, generation, seen)
                rows, runs = rows + len(portion), runs + len(found)
                self._tell(f"{attachment.name}: {rows} rows looked at, {runs} to be worked")
        await resyncing.note_backfill(self._conn, candidate, generation, rows, runs)
        return Made(attachment.id, attachment.name, choice, span.since, rows, runs, undated)

    async def _fetch(self, attachment: Attachment) -> list[PresentRow]:
        found = await resyncing.fetch_changed(self._past, _AT_ONCE)
        return present_rows(found, attachment, beside=2)

    async def _missed(
        self, attachment: Attachment, column: str, rows: Sequence[PresentRow]
    ) -> list[dict[str, Any]]:
        """Give the runs of those rows whose change was not ingested."""
        told = {row.key: Told(*row.rest) for row in rows}
        runs = await runs_of(self._evaluate, attachment, rows, self._plan.room)
        formers = await resyncing.formers(
            self._conn, [(key, one.time) for key, one in told.items()]
        )
        return [
            run
            for run in runs
            if not is_known(
                run["c"], formers.get(run["k"]), told[run["k"]], column, attachment.target.writes
            )
        ]


@dataclass(frozen=True, slots=True)
class Told:
    """What a row tells of when it changed, as PostgreSQL prints it."""

    time: str | None
    early: str | None  # "t": before the gap, perhaps; it may have been ingested

    @property
    def is_exact(self) -> bool:
        """Whether no other change has the same time: it is none of whole seconds, or days."""
        return "." in (self.time or "")


def is_known(
    change: Mapping[str, Any],
    former: Former | None,
    told: Told,
    column: str,
    writes: Sequence[str],
) -> bool:
    """Say whether the row's last run was about the row as it is, so that nothing of it was missed.

    It was, if *column* has not moved since, and is no round figure.  If it has moved, that may have
    been before the gap, or by the row's own run in it, for workers go on while nobody reads: then
    what else the run was shown has to be the same.

    Args:
        column: says when the row has changed.
        writes: columns that the row's own runs write.
    """
    before = former.change.get("new") if former is not None else None
    if former is None or before is None:
        return False
    now = to_plain(change)["new"]
    moved = column in before and before[column] != now.get(column)
    if column in before and not moved and told.is_exact:
        return True
    if not (told.early == "t" or former.wrote):
        return False
    apart = {column, *former.change.get("unchanged", ())}
    if former.wrote or not moved:
        apart.update(writes)
    return _without(before, apart) == _without(now, apart)


def _without(row: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
