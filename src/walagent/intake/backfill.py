"""Start runs for the rows that existed when the agent was attached, one for each.

A chunk is read from the table in key order.  When intake has passed the WAL position of that read,
`agent_internal.backfill_seen` holds every row of the chunk that was inserted since the attach, and
those belong to the stream.  The others existed.

The same is done after a gap if a person chooses all rows: then the rows that existed when the new
slot started count.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from psycopg import AsyncConnection, Error, sql

from walagent.domain.attachment import Attachment
from walagent.domain.change import Change, Op, Row
from walagent.errors import BrokenAttachmentError
from walagent.intake.conditions import Evaluator
from walagent.intake.new_runs import state_of
from walagent.intake.placement import place_rows
from walagent.intake.verdicts import Deferred, Verdict, match_of
from walagent.matching import document
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.matching.match import Candidates
from walagent.postgres.lsn import Lsn
from walagent.postgres.text_values import PARSERS, kind_of
from walagent.store import backfills
from walagent.store.backfills import BackfillJob
from walagent.store.codecs.record import read_record
from walagent.store.errors import is_passing, translated, translating
from walagent.store.relations import tables
from walagent.store.role_reader import RoleReader, RoleStatement
from walagent.telemetry.log import log

CHUNK = 500  # rows


@dataclass(frozen=True, slots=True)
class PresentRow:
    """A row as read from its table."""

    values: Row
    key: str
    cursor: Mapping[str, Any]  # its primary key, as JSON
    rest: tuple[str | None, ...] = ()  # additional columns of the query


class Backfill:
    """Processes the backfills of a database, one after another."""

    def __init__(  # noqa: PLR0913 - connections, state and settings
        self,
        conn: AsyncConnection[Any],
        reader: RoleReader,
        evaluate: Evaluator,
        running: set[int],
        settled: Callable[[], Lsn],
        *,
        limits: SizeLimits = SIZE_LIMITS,
    ) -> None:
        """Take over *conn*, a dedicated connection, and *reader*, which reads rows.

        Args:
            running: attachments with a running backfill; intake records their new rows.
            settled: returns the position up to which intake has ingested every change.
            limits: how much of a row a run keeps.
        """
        self._conn = conn
        self._reader = reader
        self._evaluate = evaluate
        self._running = running
        self._settled = settled
        self._limits = limits

    async def work_one(self) -> bool:
        """Process one chunk of one backfill; return False if there is none.

        A backfill that its role or its table no longer allows fails alone.
        """
        with translating():
            job = await backfills.next_backfill(self._conn)
            if job is None or job.attachment.id not in self._running:
                return False
            try:
                await self._take_chunk(job)
            except (Error, BrokenAttachmentError) as error:
                if isinstance(error, Error) and is_passing(error):
                    raise
                cause = translated(error) if isinstance(error, Error) else error
                await backfills.fail(self._conn, job, cause)
                await self._leave(job.attachment)
                log.warning("backfill.failed", attachment=job.attachment.name, error=error)
        return True

    async def _take_chunk(self, job: BackfillJob) -> None:
        if job.state == "pending":
            await backfills.start(self._conn, job)
        rows = await self._read(job.attachment, job.cursor)
        if rows:
            await self._wait_for_intake()
            await self._insert(job, rows)
        if len(rows) == CHUNK:
            return
        # The end of the table.  Rows that are inserted from now on belong to the stream.
        await backfills.finish(self._conn, job)
        await self._leave(job.attachment)
        log.info("backfill.done", attachment=job.attachment.name, rows=job.rows_done + len(rows))

    async def _leave(self, attachment: Attachment) -> None:
        """Stop recording new rows, unless another backfill of the attachment remains."""
        if attachment.id not in await backfills.running(self._conn):
            self._running.discard(attachment.id)

    async def _read(
        self, attachment: Attachment, cursor: Mapping[str, Any] | None
    ) -> Sequence[PresentRow]:
        """Read the next rows in key order, as the agent's role."""
        table = sql.Identifier(attachment.target.schema, attachment.target.table)
        keys = sql.SQL(", ").join(
            sql.Identifier("t", name) for name in attachment.target.key_columns
        )
        after = sql.SQL("")
        if cursor is not None:
            after = sql.SQL(
                "where ({keys}) > (select {names} from jsonb_populate_record(null::{table}, $1) t)"
            ).format(keys=keys, names=keys, table=table)
        statement = sql.SQL(
            "select json_agg(part::text)::text"
            " from (select t.* from {} t {} order by {} limit {}) part"
        ).format(table, after, keys, sql.Literal(CHUNK))
        columns = await tables.columns_of(self._conn, attachment.target.relation_oid)
        run_as, text = attachment.authority.run_as, statement.as_bytes(self._conn)
        found = await self._reader.read(RoleStatement(run_as, text, cursor, actor=attachment.actor))
        return [present_row(attachment, columns, part) for part in json.loads(found or "[]")]

    async def _wait_for_intake(self) -> None:
        """Wait until the checkpoint has passed the WAL of every row in the chunk."""
        read_at = await backfills.wal_position(self._conn)
        while self._settled() < read_at:
            # Only a commit makes the server send its position at once; this is a small one.
            await backfills.nudge(self._conn)
            await asyncio.sleep(0.05)

    async def _insert(self, job: BackfillJob, rows: Sequence[PresentRow]) -> None:
        attachment = job.attachment
        seen = await backfills.seen(self._conn, job, [row.key for row in rows])
        new = [row for row in rows if row.key not in seen]
        found = await runs_of(self._evaluate, attachment, new, self._limits)
        async with self._conn.transaction():
            runs = await place_rows(self._conn, found)
            await backfills.insert_runs(self._conn, attachment, job.generation, runs)
            await backfills.wake(self._conn)
            await backfills.move(self._conn, job, rows[-1].cursor, len(rows), len(runs))


async def runs_of(
    evaluate: Evaluator,
    attachment: Attachment,
    rows: Sequence[PresentRow],
    limits: SizeLimits = SIZE_LIMITS,
) -> list[dict[str, Any]]:
    """Return the runs of rows whose condition is true or raises an error.

    Raises:
        BrokenAttachmentError: the condition no longer fits the table.
    """
    relation = attachment.target.as_relation()
    changes = [
        Change(Lsn(0), n, Op.INSERT, relation, row.values, None) for n, row in enumerate(rows)
    ]
    if not changes:
        return []
    (verdicts,) = await evaluate.evaluate_all([Candidates(attachment, changes, None)])
    return [_new_run(attachment, rows, verdict, limits) for verdict in verdicts]


def _new_run(
    attachment: Attachment, rows: Sequence[PresentRow], verdict: Verdict, limits: SizeLimits
) -> dict[str, Any]:
    if isinstance(verdict, Deferred):
        raise BrokenAttachmentError(verdict.reason)
    match = match_of(verdict)
    state, error = state_of(verdict, limits)
    return {
        "key": rows[match.change.ordinal].key,
        "change": document.document(match.change, attachment, limits),
        "ordering_key": document.ordering_key_of(match.change, attachment),
        "row_tenant": document.tenant_of(match.change, attachment),
        "state": state.value,
        "error": error,
    }


def present_row(
    attachment: Attachment, columns: Sequence[tuple[str, int]], text: str, extra: int = 0
) -> PresentRow:
    """Convert the text of a record as the WAL decoder converts a row.

    Args:
        columns: of the row, with the OIDs of their types.
        extra: the number of columns at the end that are not the row's.
    """
    cells = read_record(text)
    own = len(cells) - extra
    if own != len(columns):
        raise BrokenAttachmentError("the columns of the table changed while it was read")
    values = {
        name: None if cell is None else PARSERS[kind_of(oid)](cell)
        for (name, oid), cell in zip(columns, cells, strict=False)
    }
    cursor = {name: _json(values[name]) for name in attachment.target.key_columns}
    key = document.key_of(values, attachment) or ""
    return PresentRow(values, key, cursor, tuple(cells[own:]))


def _json(value: object) -> object:
    return str(value) if isinstance(value, Decimal | datetime) else value
