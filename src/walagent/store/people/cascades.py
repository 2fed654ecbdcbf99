"""What the models of cascades decided, for people."""

from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]


async def list_cascades(
    conn: Connection, *, agent: str | None, since: datetime | timedelta | None
) -> list[dict[str, Any]]:
    """Return what the models of cascades decided, by agent and stage.

    Args:
        since: of the end of the runs; a timedelta counts from now.
    """
    age = since if isinstance(since, timedelta) else None
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        query("list_cascades"),
        {"agent": agent, "since": None if age is not None else since, "age": age},
    )
    return await cursor.fetchall()
