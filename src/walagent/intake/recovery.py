"""After a gap: runs of the rows that were changed in it, as a person chooses for each attachment.

Every change has one way to its run.  What had committed before the new slot begins is in its
snapshot, and is run on if the choice says so; what commits later comes by the slot.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from psycopg import AsyncConnection, sql

from walagent.domain.attachment import Attachment
from walagent.errors import ConfigError
from walagent.intake.backfill import PresentRow, present_row, runs_of
from walagent.intake.conditions import Evaluator, open_evaluator
from walagent.intake.gap_plan import SKIP, GapPlan, check_choice
from walagent.intake.known_rows import RowTime, is_known
from walagent.intake.placement import place_rows
from walagent.replication.resync import Renewal
from walagent.store import backfills, resyncing
from walagent.store import checkpoint as checkpoints
from walagent.store.gaps import ChoiceResult, GapChoice
from walagent.store.relations import tables
from walagent.store.resyncing import ResyncCandidate, TimeSpan
from walagent.store.role_reader import RoleReader, RoleStatement, open_role_reader
from walagent.store.sessions.connections import connect

_AT_ONCE = 1000  # rows; wide ones have a megabyte

Connection = AsyncConnection[Any]


class RowRecovery:
    """Applies a plan; implements `resync.Recovery`."""

    def __init__(
        self,
        dsn: str,
        plan: GapPlan,
        report: Callable[[str], None] = lambda _: None,
        tools_dsn: str = "",
    ) -> None:
        """Store the parameters; nothing is connected yet.

        Args:
            report: called with a sentence after each portion of rows.
            tools_dsn: of the login for code of others; "": derived.
        """
        self._dsn = dsn
        self._plan = plan
        self._report = report
        self._tools_dsn = tools_dsn

    async def check(self, conn: Connection) -> None:
        """Check that every choice can be applied.

        Raises:
            ConfigError: a choice cannot be applied.
        """
        known = {candidate.name: candidate for candidate in await resyncing.candidates(conn)}
        for name, choice in self._plan.choices.items():
            if name not in known:
                raise ConfigError(
                    f'attachment "{name}" does not exist', hint="Run walagent agents to list them."
                )
            check_choice(known[name], choice)
            if choice.kind != "skip":
                attachment = await resyncing.definition(conn, known[name].id, known[name].version)
                async with open_role_reader(conn, lambda: self._tools_dsn) as reader:
                    await reader.read(_statement(conn, attachment, resyncing.probe(attachment)))

    async def settle(self, renewal: Renewal) -> Sequence[ChoiceResult]:
        """Insert the runs in the caller's transaction; return the result for each attachment."""
        zone = await resyncing.time_zone(renewal.conn)
        async with (
            await connect(self._dsn, application="walagent evaluate") as conn,
            open_evaluator(conn, lambda: self._tools_dsn) as evaluator,
            open_role_reader(conn, lambda: self._tools_dsn) as reader,
        ):
            snapshot = await resyncing.export_snapshot(renewal.past)
            work = _Rows(renewal, evaluator, reader, snapshot, self._plan, zone, self._report)
            candidates = await resyncing.candidates(renewal.past)
            made = [await work.carry_out(each) for each in candidates]
        for one in made:
            if one.runs:
                await backfills.wake(renewal.conn)
        return made


class _Rows:
    """Reads rows in the snapshot of the new slot, and inserts their runs."""

    def __init__(  # noqa: PLR0913, PLR0917 - what to look for, and how to read it
        self,
        renewal: Renewal,
        evaluator: Evaluator,
        reader: RoleReader,
        snapshot: str,
        plan: GapPlan,
        zone: str,
        report: Callable[[str], None],
    ) -> None:
        self._renewal = renewal
        self._conn = renewal.conn
        self._evaluator = evaluator
        self._reader, self._snapshot = reader, snapshot
        self._plan = plan
        self._zone = zone
        self._report = report

    async def carry_out(self, candidate: ResyncCandidate) -> ChoiceResult:
        """Apply the choice for one attachment."""
        if candidate.in_threads:
            turns = await resyncing.insert_turns(self._conn, candidate.id, self._renewal.generation)
            return ChoiceResult(candidate.id, candidate.name, GapChoice("turns"), runs=turns)
        choice = self._plan.choices.get(candidate.name, SKIP)
        match choice.kind, self._span():
            case "all", _:
                await resyncing.replace_backfills(self._conn, candidate.id)
                await resyncing.ask_backfill(self._conn, candidate, self._renewal.generation)
            case "since", TimeSpan() as span:
                return await self._run_on_changed(candidate, choice, span)
            case _:
                pass
        return ChoiceResult(candidate.id, candidate.name, choice)

    def _span(self) -> TimeSpan | None:
        """Return the time span from the first gap on; None if nothing was ever ingested."""
        known_until = self._renewal.ingested_until
        if known_until is None:
            return None
        begins = min((gap.since for gap in self._renewal.gaps if gap.since), default=known_until)
        return TimeSpan(begins - self._plan.overlap, known_until)

    async def _run_on_changed(
        self, candidate: ResyncCandidate, choice: GapChoice, span: TimeSpan
    ) -> ChoiceResult:
        """Insert runs for the rows that have changed; `is_known` decides which are skipped."""
        attachment = await resyncing.definition(self._conn, candidate.id, candidate.version)
        column, generation = choice.column or "", self._renewal.generation
        kind = candidate.columns[column]
        rows = runs = without = 0
        async for (count,) in self._stream(attachment, resyncing.undated(attachment, column), 1):
            without = int(count[1:-1])
        await resyncing.gather_runs(self._conn, attachment.id)
        unfinished = attachment.id in await backfills.running(self._conn)
        columns = await tables.columns_of(self._conn, attachment.target.relation_oid)
        statement = resyncing.changed(attachment, column, kind, span, self._zone)
        async with aclosing(self._stream(attachment, statement, _AT_ONCE)) as portions:
            async for texts in portions:
                portion = [present_row(attachment, columns, text, extra=2) for text in texts]
                found = await self._missed(attachment, column, portion)
                placed = await place_rows(self._conn, found)
                await backfills.insert_runs(self._conn, attachment, generation, placed)
                if unfinished:  # a running backfill would also read them
                    seen = [(attachment.id, row.key) for row in portion]
                    await checkpoints.record_seen(self._conn, generation, seen)
                rows, runs = rows + len(portion), runs + len(found)
                self._report(f"{attachment.name}: {rows} rows read, {runs} runs")
        await resyncing.note_backfill(self._conn, candidate, generation, rows, runs)
        return ChoiceResult(attachment.id, attachment.name, choice, span.since, rows, runs, without)

    def _stream(
        self, attachment: Attachment, statement: sql.Composed, size: int
    ) -> AsyncGenerator[Sequence[str]]:
        found = _statement(self._conn, attachment, statement)
        return self._reader.stream(found, self._snapshot, size)

    async def _missed(
        self, attachment: Attachment, column: str, rows: Sequence[PresentRow]
    ) -> list[dict[str, Any]]:
        """Return the runs of the rows whose change was not ingested."""
        times = {row.key: RowTime(*row.rest) for row in rows}
        runs = await runs_of(self._evaluator, attachment, rows, self._plan.limits)
        formers = await resyncing.formers(
            self._conn, [(key, one.time) for key, one in times.items()]
        )
        return [
            run
            for run in runs
            if not is_known(
                run["change"],
                formers.get(run["key"]),
                times[run["key"]],
                column,
                attachment.target.writes,
            )
        ]


def _statement(conn: Connection, attachment: Attachment, text: sql.Composed) -> RoleStatement:
    return RoleStatement(attachment.authority.run_as, text.as_bytes(conn), actor=attachment.actor)
