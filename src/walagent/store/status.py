"""Read what metrics and health checks report."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from walagent.store.queries import query

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """Whether the slot is blocked, and how many approvals are pending."""

    approvals: int
    withheld: bool  # whether the server waits for a standby; False if unknown


@dataclass(frozen=True, slots=True)
class SlotBacklog:
    """The WAL that the server retains for a slot, in bytes."""

    retained: int
    behind: int  # not confirmed
    restart: str | None = None  # the LSN from which it is retained; None: there is no such slot
    end: str = "0/0"  # the LSN of the end of the WAL
    standby_names: str | bytes = ""  # synchronous_standby_names; bytes: of a SQL_ASCII database


@dataclass(frozen=True, slots=True)
class KeptWal:
    """WAL that was written since an LSN, and what a slot may retain of it."""

    written: int  # bytes
    limit: int | None  # max_slot_wal_keep_size


async def read_status(conn: Connection, slot: str) -> DatabaseStatus:
    """Read whether the slot's server waits for a standby, and how many approvals are pending."""
    row = await (await conn.execute(query("read_status"), {"slot": slot})).fetchone()
    return DatabaseStatus(*row) if row else DatabaseStatus(0, withheld=False)


async def show_status(conn: Connection, slot: str) -> dict[str, Any]:
    """Read who reads the slot, the queue, and the figures of today, for people."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("show_status"), {"slot": slot})
    return await cursor.fetchone() or {}


async def show_problems(conn: Connection) -> list[dict[str, Any]]:
    """Read what a person must act on, the most urgent first, and what can wait."""
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("show_problems"), {})
    return await cursor.fetchall()


async def announce_problems(conn: Connection, problems: Iterable[Mapping[str, Any]]) -> None:
    """Notify people of what lasts of the problems that were found, once for each.

    Args:
        problems: all that were found, as `show_problems` returns them, with `lasts`.
    """
    names = ("kind", "tenant", "subject", "text", "detail", "fix", "lasts")
    found = [{name: each[name] for name in names} for each in problems]
    await conn.execute(query("announce_problems"), {"problems": Jsonb(found)})


async def read_backlog(conn: Connection, slot: str) -> SlotBacklog:
    """Read what the server retains for a slot; zeros if it does not exist."""
    row = await (await conn.execute(query("read_backlog"), {"slot": slot})).fetchone()
    if row is None:
        return SlotBacklog(0, 0)
    return SlotBacklog(*row)


async def read_kept(conn: Connection, since: str) -> KeptWal:
    """Read how much WAL was written since an LSN, and how much of it a slot may retain."""
    cursor = await conn.execute(
        "select pg_wal_lsn_diff(pg_current_wal_lsn(), %s::pg_lsn)::bigint,"
        "       nullif(pg_size_bytes(current_setting('max_slot_wal_keep_size')), -1)",
        [since],
    )
    row = await cursor.fetchone()
    return KeptWal(*row) if row else KeptWal(0, None)


async def count_runs(conn: Connection) -> dict[tuple[str, str], int]:
    """Count runs by agent, "" for questions, and state.

    Reads an index of the whole table: do not call it for every scrape.
    """
    cursor = await conn.execute(
        "select coalesce(a.agent, ''), r.state::text, sum(r.n)::bigint"
        "  from (select attachment_id, state, count(*) as n from agent.run group by 1, 2) r"
        "  left join agent.attachment a on a.id = r.attachment_id group by 1, 2"
    )
    return {(agent, state): count for agent, state, count in await cursor.fetchall()}


async def oldest_queued(conn: Connection) -> float:
    """Return the age of the oldest run that could be executed now, in seconds; 0 if none."""
    cursor = await conn.execute(
        "select coalesce(extract(epoch from agent_internal.now() - min(r.created_at)), 0)::float8"
        "  from agent_internal.queue q cross join lateral ("
        "       select r.created_at from agent.run r"
        "        where r.queue_id = q.id and r.state = 'pending' and r.blocked_by is null"
        "          and r.not_before is null order by r.id + 0 limit 1) r"
        " where not q.paused and q.kind = 'agent'"
    )
    row = await cursor.fetchone()
    return row[0] if row else 0.0
