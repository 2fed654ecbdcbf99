"""What agents wrote lately, for the reader; corrections and accuracy, for people."""

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.store.queries import query

Connection = AsyncConnection[Any]
Found = dict[str, Any]

_LAST_WRITES = """
select n.nspname, c.relname, w.key, array_agg(w.column_name)
  from agent_internal.last_write w
       join pg_catalog.pg_class c on c.oid = w.relation
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 group by n.nspname, c.relname, w.relation, w.row_hash, w.key
"""
_AT_ONCE = 10_000  # rows


async def last_writes(
    conn: Connection,
) -> AsyncGenerator[tuple[str, str, dict[str, str | None], list[str]]]:
    """Yield schema, table, key and columns of each row that agents wrote lately."""
    async with conn.transaction(), conn.cursor(name="last_writes") as cursor:
        cursor.itersize = _AT_ONCE
        await cursor.execute(_LAST_WRITES)
        async for row in cursor:
            yield row


async def forget_writes(conn: Connection, within: timedelta) -> None:
    """Forget what agents wrote longer than *within* ago."""
    await conn.execute(
        "select agent_internal.forget_writes(_within => %(within)s)", {"within": within}
    )


async def list_corrections(  # noqa: PLR0913 - criteria, each of which can be missing
    conn: Connection,
    *,
    agent: str | None = None,
    column: str | None = None,
    run: int | None = None,
    since: datetime | timedelta | None = None,
    limit: int,
) -> list[Found]:
    """List corrections that meet all criteria, the latest first.

    Args:
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
