"""Look up the tenants that rows name."""

from collections.abc import Collection
from typing import Any

from psycopg import AsyncConnection


async def active(conn: AsyncConnection[Any], names: Collection[str]) -> frozenset[str]:
    """Return those of *names* that are active tenants."""
    cursor = await conn.execute(
        "select name from agent.tenant where active and name = any (%(names)s::text[])",
        {"names": [name for name in names if name]},
    )
    return frozenset(name for (name,) in await cursor.fetchall())
