"""Statements of `walagent wal resync`: attachments, changed rows, and their latest runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection, sql
from psycopg.rows import class_row

from walagent.domain.attachment import Attachment
from walagent.domain.run import TURN_PRIORITY
from walagent.store.queries import query

Connection = AsyncConnection[Any]

# A timestamp without time zone is in the database's time zone.
_MOMENT: Final = "t.{column}::timestamp at time zone {zone}"
_BOUND: Final = "{time}::timestamptz at time zone {zone}"
_ZONED: Final = "with time zone"


@dataclass(frozen=True, slots=True)
class ResyncCandidate:
    """An attachment that needs a choice."""

    id: int
    version: int
    name: str
    relation: str
    ops: Sequence[str]
    in_threads: bool  # its runs are turns
    has_table: bool
    has_key: bool
    columns: Mapping[str, str]  # with times: name to type, as PostgreSQL formats it


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The times from which on rows are read, and up to which they might have been ingested."""

    since: datetime
    known_until: datetime


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a row."""

    change: Mapping[str, Any]
    wrote: bool  # whether a run of the attachment wrote the row at the time in its column


async def candidates(conn: Connection) -> list[ResyncCandidate]:
    """List the attachments."""
    cursor = conn.cursor(row_factory=class_row(ResyncCandidate))
    await cursor.execute(query("list_candidates"))
    return await cursor.fetchall()


async def definition(conn: Connection, attachment_id: int, version: int) -> Attachment:
    """Load a version of an attachment."""
    cursor = await conn.execute(
        "select definition from agent.attachment_version where attachment_id = %(attachment)s"
        " and version = %(version)s",
        {"attachment": attachment_id, "version": version},
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - versions are never removed
    return Attachment.from_json(row[0])


async def time_zone(conn: Connection) -> str:
    """Return the time zone that the database uses for columns without one."""
    row = await (await conn.execute("select current_setting('TimeZone')")).fetchone()
    return row[0] if row else "UTC"


async def export_snapshot(conn: Connection) -> str:
    """Export the snapshot of a transaction, for others to read in it."""
    row = await (await conn.execute("select pg_export_snapshot()")).fetchone()
    return row[0] if row else ""


def probe(attachment: Attachment) -> sql.Composed:
    """Return a statement that fails if the table cannot be read."""
    return sql.SQL("select count(*)::text from (select t.* from {} t limit 0) t").format(
        _table(attachment)
    )


def changed(
    attachment: Attachment, column: str, kind: str, span: TimeSpan, zone: str
) -> sql.Composed:
    """Return a statement that reads the rows whose column is at or after `span.since`.

    It returns the row's columns, the time in the column as a timestamptz, and whether that is
    not after `span.known_until`.

    Args:
        kind: the column's type.
        zone: see `time_zone`.
    """
    name, here = sql.Identifier(column), sql.Literal(zone)
    moment = sql.SQL("t.{}").format(name)
    if not kind.endswith(_ZONED):
        moment = sql.SQL(_MOMENT).format(column=name, zone=here)

    def bound(time: datetime) -> sql.Composed:
        """Format a time as the column would store it, with its rounding."""
        value: sql.Composable = sql.Literal(time)
        if not kind.endswith(_ZONED):
            value = sql.SQL(_BOUND).format(time=value, zone=here)
        return sql.SQL("cast({} as {})").format(value, sql.SQL(kind))  # pyright: ignore[reportArgumentType] - of the catalog

    return sql.SQL(
        "select t.*, {moment}, t.{column} <= {known} from {table} t where t.{column} >= {since}"
        " order by t.{column}, {keys}"
    ).format(
        moment=moment,
        column=name,
        known=bound(span.known_until),
        since=bound(span.since),
        table=_table(attachment),
        keys=sql.SQL(", ").join(
            sql.Identifier("t", name) for name in attachment.target.key_columns
        ),
    )


def undated(attachment: Attachment, column: str) -> sql.Composed:
    """Return a statement that counts the rows of a table without a time of their last change."""
    statement = sql.SQL("select count(*) from {} t where t.{} is null")
    return statement.format(_table(attachment), sql.Identifier(column))


async def gather_runs(conn: Connection, attachment_id: int) -> None:
    """Index an attachment's runs by key for `formers`, until the transaction ends.

    A permanent index would be maintained with every run, for the rare case of a gap.
    """
    await conn.execute("drop table if exists pg_temp.walagent_run")
    await conn.execute(
        "create temp table walagent_run on commit drop as"
        " select id, key from agent.run where attachment_id = %(attachment)s and key is not null",
        {"attachment": attachment_id},
    )
    await conn.execute("create index on pg_temp.walagent_run (key)")
    await conn.execute("analyze pg_temp.walagent_run")


async def formers(conn: Connection, rows: Sequence[tuple[str, str | None]]) -> dict[str, LastRun]:
    """Return the last run of each row, among those of `gather_runs`.

    Args:
        rows: primary key, and the time in the row's column.
    """
    cursor = await conn.execute(
        query("last_runs"),
        {"keys": [key for key, _ in rows], "times": [time for _, time in rows]},
    )
    return {key: LastRun(change, wrote) for key, change, wrote in await cursor.fetchall()}


async def insert_turns(conn: Connection, attachment_id: int, generation: int) -> int:
    """Insert turns in the threads whose latest events an agent has not taken up; count them."""
    cursor = await conn.execute(
        "select agent_internal.insert_missed_turns(_attachment => %(attachment)s,"
        " _generation => %(generation)s, _shift => %(shift)s)",
        {"attachment": attachment_id, "generation": generation, "shift": TURN_PRIORITY},
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def replace_backfills(conn: Connection, attachment_id: int) -> None:
    """Remove an attachment's unfinished backfills: one of all rows replaces them."""
    await conn.execute(
        "update agent.backfill set state = 'replaced', finished_at = agent_internal.now()"
        " where attachment_id = %(attachment)s and state in ('pending', 'running')",
        {"attachment": attachment_id},
    )


async def ask_backfill(conn: Connection, candidate: ResyncCandidate, generation: int) -> None:
    """Request a backfill of all rows of an attachment's table."""
    await conn.execute(
        "insert into agent.backfill (attachment_id, version, generation)"
        " values (%(attachment)s, %(version)s, %(generation)s)",
        {"attachment": candidate.id, "version": candidate.version, "generation": generation},
    )


async def note_backfill(
    conn: Connection, candidate: ResyncCandidate, generation: int, rows: int, runs: int
) -> None:
    """Record a backfill that is complete."""
    await conn.execute(
        "insert into agent.backfill (attachment_id, version, generation, state, rows_total,"
        "                            rows_done, runs, started_at, finished_at)"
        " values (%(attachment)s, %(version)s, %(generation)s, 'done', %(rows)s, %(rows)s,"
        "         %(runs)s, agent_internal.now(), agent_internal.now())",
        {
            "attachment": candidate.id,
            "version": candidate.version,
            "generation": generation,
            "rows": rows,
            "runs": runs,
        },
    )


def _table(attachment: Attachment) -> sql.Identifier:
    return sql.Identifier(attachment.target.schema, attachment.target.table)
