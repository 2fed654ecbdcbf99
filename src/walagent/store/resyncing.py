"""What `walagent resync` asks: attachments, what their tables tell, what was ingested already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection, AsyncRawCursor, sql
from psycopg.rows import class_row

from walagent.attachment import Attachment
from walagent.store.queries import query

Connection = AsyncConnection[Any]

# A time without a zone is one of the database's zone.
_MOMENT: Final = "t.{column}::timestamp at time zone {zone}"
_BOUND: Final = "{time}::timestamptz at time zone {zone}"
_ZONED: Final = "with time zone"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attachment that a choice can be made for."""

    id: int
    version: int
    name: str
    relation: str
    ops: Sequence[str]
    has_table: bool
    has_key: bool
    columns: Mapping[str, str]  # that hold times: name to type, as PostgreSQL writes it


@dataclass(frozen=True, slots=True)
class Span:
    """From when on rows are looked at, and until when they may have been ingested."""

    since: datetime
    known_until: datetime


@dataclass(frozen=True, slots=True)
class Former:
    """What a row's last run was about."""

    change: Mapping[str, Any]
    wrote: bool  # whether a run of the attachment wrote the row at the time that the row tells


async def candidates(conn: Connection) -> list[Candidate]:
    """List the attachments that there are."""
    cursor = conn.cursor(row_factory=class_row(Candidate))
    await cursor.execute(query("list_candidates"))
    return await cursor.fetchall()


async def definition(conn: Connection, attachment_id: int, version: int) -> Attachment:
    """Load a version of an attachment."""
    cursor = await conn.execute(
        "select definition from agent.attachment_version where attachment_id = %s and version = %s",
        [attachment_id, version],
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - a version is never removed
    return Attachment.from_json(row[0])


async def time_zone(conn: Connection) -> str:
    """Which time zone the database means where a column has none."""
    row = await (await conn.execute("select current_setting('TimeZone')")).fetchone()
    return row[0] if row else "UTC"


async def probe(conn: Connection, attachment: Attachment) -> None:
    """See that a table can be read."""
    await conn.execute(sql.SQL("select t.* from {} t limit 0").format(_table(attachment)))


async def open_changed(  # noqa: PLR0913, PLR0917 - what to look for, and how to read it
    conn: Connection, attachment: Attachment, column: str, kind: str, span: Span, zone: str
) -> None:
    """Declare the cursor `changed`: a table's rows whose column has `span.since` or a later time.

    Beside the row's columns it gives the time that the row tells, as a timestamptz, and whether
    that is not after `span.known_until`.

    Args:
        kind: the column's type.
        zone: see `time_zone`.
    """
    name, here = sql.Identifier(column), sql.Literal(zone)
    moment = sql.SQL("t.{}").format(name)
    if not kind.endswith(_ZONED):
        moment = sql.SQL(_MOMENT).format(column=name, zone=here)

    def bound(time: datetime) -> sql.Composed:
        """Write a time as the column would hold it: rounded as it rounds."""
        value: sql.Composable = sql.Literal(time)
        if not kind.endswith(_ZONED):
            value = sql.SQL(_BOUND).format(time=value, zone=here)
        return sql.SQL("cast({} as {})").format(value, sql.SQL(kind))  # pyright: ignore[reportArgumentType] - of the catalog

    statement = sql.SQL(
        "declare changed no scroll cursor for"
        " select t.*, {moment}, t.{column} <= {known} from {table} t where t.{column} >= {since}"
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
    await conn.execute(statement)


async def fetch_changed(conn: Connection, count: int) -> AsyncRawCursor[Any]:
    """Fetch the next rows of the cursor `changed`."""
    found = AsyncRawCursor(conn)
    await found.execute(f"fetch {count} from changed".encode())
    return found


async def count_undated(conn: Connection, attachment: Attachment, column: str) -> int:
    """Count the rows of a table that do not tell when they changed."""
    statement = sql.SQL("select count(*) from {} t where t.{} is null")
    cursor = await conn.execute(statement.format(_table(attachment), sql.Identifier(column)))
    row = await cursor.fetchone()
    return row[0] if row else 0


async def gather_runs(conn: Connection, attachment_id: int) -> None:
    """Let `formers` find an attachment's runs by key, until the transaction ends.

    No index does: it would be kept up with every run, for the rare day of a gap.
    """
    await conn.execute("drop table if exists pg_temp.walagent_run")
    await conn.execute(
        "create temp table walagent_run on commit drop as"
        " select id, key from agent.run where attachment_id = %s and key is not null",
        [attachment_id],
    )
    await conn.execute("create index on pg_temp.walagent_run (key)")
    await conn.execute("analyze pg_temp.walagent_run")


async def formers(conn: Connection, rows: Sequence[tuple[str, str | None]]) -> dict[str, Former]:
    """Find the last run of each row, among those of `gather_runs`.

    Args:
        rows: primary key, and the time that the row tells.
    """
    cursor = await conn.execute(
        query("last_runs"),
        {"keys": [key for key, _ in rows], "times": [time for _, time in rows]},
    )
    return {key: Former(change, wrote) for key, change, wrote in await cursor.fetchall()}


async def replace_backfills(conn: Connection, attachment_id: int) -> None:
    """End an attachment's unfinished backfills: one of all rows takes their place."""
    await conn.execute(
        "update agent.backfill set state = 'replaced', finished_at = agent_internal.now()"
        " where attachment_id = %s and state in ('pending', 'running')",
        [attachment_id],
    )


async def ask_backfill(conn: Connection, candidate: Candidate, generation: int) -> None:
    """Ask the reader to run an agent on all rows of its table."""
    await conn.execute(
        "insert into agent.backfill (attachment_id, version, generation) values (%s, %s, %s)",
        [candidate.id, candidate.version, generation],
    )


async def note_backfill(
    conn: Connection, candidate: Candidate, generation: int, rows: int, runs: int
) -> None:
    """Note that rows have been worked through."""
    await conn.execute(
        "insert into agent.backfill (attachment_id, version, generation, state, rows_total,"
        "                            rows_done, runs, started_at, finished_at)"
        " values (%s, %s, %s, 'done', %s, %s, %s, agent_internal.now(), agent_internal.now())",
        [candidate.id, candidate.version, generation, rows, rows, runs],
    )


def _table(attachment: Attachment) -> sql.Identifier:
    return sql.Identifier(attachment.target.schema, attachment.target.table)
