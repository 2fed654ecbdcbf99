"""What people say of runs, and which runs they should look at."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]
Found = dict[str, Any]

# Why a run is listed, as agent.unscored_run has it.
REASONS: Final = ("corrected", "shadow_differs", "mistakes", "fell_back", "near_limit", "sample")


async def list_unscored(
    conn: Connection,
    *,
    agent: str | None,
    reasons: Sequence[str],
    since: datetime | timedelta | None,
    limit: int,
) -> list[Found]:
    """List succeeded runs that a person should score, the latest first.

    Args:
        reasons: of which a run must have one; none: any.
        since: when they were created; a timedelta counts from now.
    """
    age = since if isinstance(since, timedelta) else None
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        query("list_unscored"),
        {
            "agent": agent,
            "reasons": list(reasons) or None,
            "since": None if age is not None else since,
            "age": age,
            "limit": limit,
        },
    )
    return await cursor.fetchall()


async def score(conn: Connection, run: int, value: float, comment: str | None) -> None:
    """Say of an ended run whether it was right: 1 (right), 0 (unsure) or -1 (wrong)."""
    await conn.execute(
        "select agent.score(run_id => %s, value => %s::numeric, comment => %s)",
        [run, value, comment],
    )
