"""Remove runs that ended long ago, with what belongs to them, and what agents wrote long ago."""

from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

Connection = AsyncConnection[Any]


async def prune_some(
    conn: Connection, keep: timedelta, keep_decided: timedelta | None, after: int, batch: int
) -> tuple[int, int | None]:
    """Remove the old ones among the next *batch* runs after *after*.

    Returns:
        How many were removed, and where to continue; None: all later runs are too young.
    """
    cursor = await conn.execute(
        "select removed, last from agent_internal.prune_some(_keep => %(keep)s,"
        " _keep_decided => %(keep_decided)s, _after => %(after)s, _batch => %(batch)s)",
        {"keep": keep, "keep_decided": keep_decided, "after": after, "batch": batch},
    )
    row = await cursor.fetchone()
    return row or (0, None)


async def forget_writes(conn: Connection, within: timedelta, batch: int) -> bool:
    """Forget some of what agents wrote longer than *within* ago; return whether more is left."""
    cursor = await conn.execute(
        "select agent_internal.forget_writes(_within => %(within)s, _batch => %(batch)s)",
        {"within": within, "batch": batch},
    )
    row = await cursor.fetchone()
    return row is not None and row[0] == batch


async def prune_rest(conn: Connection, keep: timedelta) -> None:
    """Remove old workers and backfills."""
    await conn.execute("select agent_internal.prune_rest(_keep => %(keep)s)", {"keep": keep})
