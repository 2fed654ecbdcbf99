"""Gaps: WAL that was lost, and the choices for its rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row

from walagent.postgres.lsn import Lsn
from walagent.store.queries import query

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap that is not resolved."""

    id: int
    from_lsn: str | None
    to_lsn: str | None
    since: datetime | None  # everything that committed before it is ingested
    reason: str


@dataclass(frozen=True, slots=True)
class GapChoice:
    """The choice for the rows of a gap."""

    kind: str  # skip, since or all; turns: nobody chooses what an agent in threads takes up
    column: str | None = None  # of since: the column with the time of a row's last change

    def __str__(self) -> str:
        """Format it as on the command line."""
        return f"{self.kind}:{self.column}" if self.column else self.kind


@dataclass(frozen=True, slots=True)
class ChoiceResult:
    """The result of a choice.  Counts are None if not known yet."""

    attachment_id: int
    attachment: str
    choice: GapChoice
    since: datetime | None = None
    rows: int | None = None
    runs: int | None = None
    undated: int | None = None


async def record_gap(  # noqa: PLR0913 - a row's columns
    conn: Connection,
    slot: str,
    generation: int,
    reason: str,
    *,
    to_lsn: Lsn | None = None,
    from_lsn: Lsn | None = None,
    since: datetime | None = None,
) -> bool:
    """Record lost WAL, unless the same slot has an open gap.

    Args:
        generation: of the lost slot.
        to_lsn: the end of the gap as far as known; None: the end of WAL.
        from_lsn, since: the start of the gap, not later than the checkpoint, which is the
            default.

    Returns:
        False if a new slot was created meanwhile, of which nothing is lost.
    """
    parameters = {
        "slot": slot,
        "generation": generation,
        "reason": reason,
        "from": None if from_lsn is None else str(from_lsn),
        "to": None if to_lsn is None else str(to_lsn),
        "since": since,
    }
    await conn.execute(query("record_gap"), parameters)
    cursor = await conn.execute(
        "select from agent.checkpoint where slot = %(slot)s and generation = %(generation)s",
        {"slot": slot, "generation": generation},
    )
    return cursor.rowcount > 0


async def open_gaps(conn: Connection, slot: str) -> list[Gap]:
    """Return a slot's open gaps, the oldest first."""
    cursor = conn.cursor(row_factory=class_row(Gap))
    await cursor.execute(
        "select id, from_lsn::text, to_lsn::text, since, reason from agent.gap"
        " where slot = %(slot)s and resolved_at is null order by id",
        {"slot": slot},
    )
    return await cursor.fetchall()


async def settle_gap(conn: Connection, gap: Gap, made: Iterable[ChoiceResult], start: Lsn) -> None:
    """Resolve a gap: a new slot starts at *start*; record what was chosen for each attachment."""
    await conn.execute(
        "update agent.gap"
        "   set to_lsn = %(to_lsn)s, resolution = %(resolution)s,"
        "       resolved_at = agent_internal.now(), resolved_by = agent.current_principal()"
        " where id = %(gap)s",
        {"to_lsn": str(start), "resolution": f"a new slot starts at {start}", "gap": gap.id},
    )
    for one in made:
        await conn.execute(
            "insert into agent.gap_choice (gap_id, attachment_id, attachment, choice, column_name,"
            "                              since, rows, runs, undated)"
            " values (%(gap)s, %(id)s, %(attachment)s, %(choice)s, %(column)s, %(since)s, %(rows)s,"
            "         %(runs)s, %(undated)s)",
            {
                "gap": gap.id,
                "id": one.attachment_id,
                "attachment": one.attachment,
                "choice": one.choice.kind,
                "column": one.choice.column,
                "since": one.since,
                "rows": one.rows,
                "runs": one.runs,
                "undated": one.undated,
            },
        )


async def resolve_gap(conn: Connection, gap_id: int, resolution: str) -> bool:
    """Record how a gap was resolved; False if no open gap has this ID."""
    cursor = await conn.execute(
        "update agent.gap"
        "   set resolution = %(resolution)s, resolved_at = agent_internal.now(),"
        "       resolved_by = agent.current_principal()"
        " where id = %(gap)s and resolved_at is null",
        {"resolution": resolution, "gap": gap_id},
    )
    return cursor.rowcount > 0


async def give_up(conn: Connection, slot: str, epoch: int, reason: str) -> int | None:
    """Record the gap of a slot that is abandoned, and fence its reader; the slot is dropped later.

    Returns:
        The gap; None if a reader of another epoch holds the checkpoint.
    """
    cursor = await conn.execute(
        "select agent_internal.abandon_slot(_slot => %(slot)s, _epoch => %(epoch)s,"
        " _reason => %(reason)s)",
        {"slot": slot, "epoch": epoch, "reason": reason},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def present(conn: Connection) -> tuple[Lsn, datetime]:
    """Return the end of WAL and the server's time."""
    cursor = await conn.execute("select pg_current_wal_insert_lsn()::text, clock_timestamp()")
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - a select without from returns one row
    return Lsn.parse(row[0]), row[1]


async def check_identities(conn: Connection) -> list[tuple[str, str]]:
    """Publish no updates of tables for which they would fail, and pause who needs them.

    Returns:
        The tables whose updates are no longer published, with the reason.
    """
    cursor = await conn.execute("select relation, problem from agent_internal.check_identities()")
    return await cursor.fetchall()


async def publication_trouble(conn: Connection) -> list[str]:
    """Return unexpected changes to the publications, one sentence each."""
    cursor = await conn.execute("select agent_internal.publication_trouble()")
    return [row[0] for row in await cursor.fetchall()]


async def request_tables(
    conn: Connection, slot: str, requests: Mapping[tuple[str, str], tuple[bool, bool]]
) -> None:
    """Request tables for the reader of *slot*, in place of those that it requested before.

    Args:
        requests: by schema and name, whether only inserts are needed, and whether a change that is
            not sent is a gap.
    """
    await conn.execute(
        "select agent_internal.request_tables(_slot => %(slot)s, _schemas => %(schemas)s::text[],"
        " _tables => %(tables)s::text[], _inserts_only => %(inserts_only)s::boolean[],"
        " _durable => %(durable)s::boolean[])",
        {
            "slot": slot,
            "schemas": [schema for schema, _ in requests],
            "tables": [name for _, name in requests],
            "inserts_only": [inserts_only for inserts_only, _ in requests.values()],
            "durable": [durable for _, durable in requests.values()],
        },
    )


async def abandoned_requests(conn: Connection, prefix: str) -> list[str]:
    """Return the slots that do not exist and have requested tables.

    Args:
        prefix: of their names.
    """
    cursor = await conn.execute(
        "select distinct substr(t.requester, 6) from agent_internal.requested_table t"
        " where starts_with(t.requester, 'slot ' || %(prefix)s)"
        "   and not exists (select from pg_catalog.pg_replication_slots s"
        "                    where 'slot ' || s.slot_name = t.requester)",
        {"prefix": prefix},
    )
    return [row[0] for row in await cursor.fetchall()]


async def may_publish(conn: Connection) -> bool:
    """Return whether this login can repair the publications."""
    cursor = await conn.execute(
        "select has_function_privilege('agent_internal.republish()', 'execute')"
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def adopt_tables(conn: Connection) -> list[str]:
    """Connect attachments to their tables in a database restored from a dump.

    Returns:
        The attachments that were updated.
    """
    cursor = await conn.execute("select agent_internal.adopt_tables()")
    return [row[0] for row in await cursor.fetchall()]


async def publish_again(conn: Connection) -> None:
    """Repair the publications.

    Raises (as a PostgreSQL error):
        PreconditionError: the login is not the owner of the schema.
    """
    await conn.execute("select agent_internal.republish()")
