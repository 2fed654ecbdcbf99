"""The identity of the database: a copy of it must not execute the runs of the original."""

from typing import Any

from psycopg import AsyncConnection

Connection = AsyncConnection[Any]


async def check_database(conn: Connection) -> str:
    """Return the identity of the database.

    Raises (as a PostgreSQL error, see `store.errors`):
        PreconditionError: it is a copy; a person decides with `walagent adopt`.
    """
    row = await (await conn.execute("select agent_internal.check_database()")).fetchone()
    return row[0] if row else ""


async def adopt_database(conn: Connection, *, moved: bool) -> int | None:
    """Let a copy execute runs; return the number of runs that it cancelled.

    Args:
        moved: the original is not used any more, so its runs continue here.

    Returns:
        None if the database is no copy: nothing was done.
    """
    cursor = await conn.execute(
        "select agent_internal.adopt_database(_moved => %(moved)s)", {"moved": moved}
    )
    row = await cursor.fetchone()
    return row[0] if row else None
