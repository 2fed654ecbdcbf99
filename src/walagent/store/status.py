"""What metrics and health checks ask the database."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from walagent.store.queries import query

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Status:
    """What waits."""

    approvals: int
    withheld: bool  # whether the server waits for a standby; unknown means no


@dataclass(frozen=True, slots=True)
class Kept:
    """What the server keeps for a slot.  Bytes of WAL."""

    retained: int
    behind: int  # not confirmed


async def read_status(conn: Connection, slot: str) -> Status:
    """Read whether the slot's server waits, and how many questions wait for a person."""
    row = await (await conn.execute(query("read_status"), {"slot": slot})).fetchone()
    return Status(*row) if row else Status(0, withheld=False)


async def read_backlog(conn: Connection, slot: str) -> Kept:
    """Read what the server keeps for a slot; nothing for one that is not there."""
    row = await (await conn.execute(query("read_backlog"), {"slot": slot})).fetchone()
    return Kept(*row) if row else Kept(0, 0)


async def count_runs(conn: Connection) -> dict[str, int]:
    """Count runs by state.  Reads an index of the whole table: not for every scrape."""
    cursor = await conn.execute("select state::text, count(*) from agent.run group by 1")
    return dict(await cursor.fetchall())
