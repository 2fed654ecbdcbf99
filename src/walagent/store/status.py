"""Read what metrics and health checks report."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

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


async def read_status(conn: Connection, slot: str) -> DatabaseStatus:
    """Read whether the slot's server waits for a standby, and how many approvals are pending."""
    row = await (await conn.execute(query("read_status"), {"slot": slot})).fetchone()
    return DatabaseStatus(*row) if row else DatabaseStatus(0, withheld=False)


async def read_backlog(conn: Connection, slot: str) -> SlotBacklog:
    """Read what the server retains for a slot; zeros if it does not exist."""
    row = await (await conn.execute(query("read_backlog"), {"slot": slot})).fetchone()
    return SlotBacklog(*row) if row else SlotBacklog(0, 0)


async def count_runs(conn: Connection) -> dict[str, int]:
    """Count runs by state.  Reads an index of the whole table: do not call it for every scrape."""
    cursor = await conn.execute("select state::text, count(*) from agent.run group by 1")
    return dict(await cursor.fetchall())
