"""The roles that are walagent's alone: nobody else may act as them."""

from typing import Any

from psycopg import AsyncConnection

from walagent.store.errors import translating


async def check_own_role(conn: AsyncConnection[Any], name: str, *, logs_in: bool = False) -> None:
    """Check that a role which exists is walagent's alone: somebody else can have made it.

    Raises:
        PreconditionError: somebody else can act as it; the hint has the statement that ends it.
    """
    with translating():
        await conn.execute("select agent_internal.check_own_role(%s, %s)", [name, logs_in])
