"""The schema of the application, as the present role may read it."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection

from walagent.store.queries import query

Connection = AsyncConnection[Any]


async def read_schema(
    conn: Connection, schemas: Sequence[str] | None = None
) -> list[Mapping[str, Any]]:
    """Read tables and views: columns, keys, references, checks, enum values, comments.

    Args:
        schemas: only these; None: all but the server's and our own.
    """
    parameters = {"schemas": None if schemas is None else list(schemas)}
    cursor = await conn.execute(query("read_schema"), parameters)
    return [document for (document,) in await cursor.fetchall()]
