"""What others made of what agents wrote, for people."""

from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]
Found = dict[str, Any]


async def list_corrections(  # noqa: PLR0913 - criteria, each of which can be missing
    conn: Connection,
    *,
    agent: str | None = None,
    column: str | None = None,
    run: int | None = None,
    by: str | None = None,
    since: datetime | timedelta | None = None,
    limit: int,
) -> list[Found]:
    """List corrections that meet all criteria, the latest first.

    Args:
        by: who has signed the transaction, or asked for the revert.
        since: when they were committed; a timedelta counts from now.
    """
    age = since if isinstance(since, timedelta) else None
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        query("list_corrections"),
        {
            "agent": agent,
            "column": column,
            "run": run,
            "by": by,
            "since": None if age is not None else since,
            "age": age,
            "limit": limit,
        },
    )
    return await cursor.fetchall()


async def accuracy_of(
    conn: Connection, *, agent: str | None, since: datetime | timedelta | None
) -> list[Found]:
    """Return accuracy by agent, version and column, the latest version first.

    Args:
        since: of the writes; a timedelta counts from now.
    """
    age = since if isinstance(since, timedelta) else None
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(
        query("accuracy"),
        {"agent": agent, "since": None if age is not None else since, "age": age},
    )
    return await cursor.fetchall()


async def corrected_rows(conn: Connection, agent: str, limit: int) -> list[Found]:
    """Return rows of which people corrected what an agent wrote, the latest first.

    Each has run, key, texts (of the row as the run saw it, by column) and arguments (of update_row,
    as they are right).
    """
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute(query("corrected_rows"), {"agent": agent, "limit": limit})
    return await cursor.fetchall()
