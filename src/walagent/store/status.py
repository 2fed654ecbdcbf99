"""What metrics and health checks ask the database."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from walagent.store.queries import query

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Status:
    """The slot, and what waits.  Bytes of WAL."""

    retained: int
    behind: int
    approvals: int
    withheld: bool  # whether the server waits for a standby; unknown means no


async def read_status(conn: Connection, slot: str) -> Status:
    """Read how far behind the slot is, and how many questions wait for a person."""
    row = await (await conn.execute(query("read_status"), {"slot": slot})).fetchone()
    return Status(*row) if row else Status(0, 0, 0, withheld=False)


async def count_runs(conn: Connection) -> dict[str, int]:
    """Count runs by state.  Reads an index of the whole table: not for every scrape."""
    cursor = await conn.execute("select state::text, count(*) from agent.run group by 1")
    return dict(await cursor.fetchall())
