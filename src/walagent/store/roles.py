"""Acting as another role, for a session or for a transaction.

A run's writes take their role in SQL (`agent_internal.assume_role`), which also bounds their locks.
"""

from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection, sql

Connection = AsyncConnection[Any]


async def set_role(conn: Connection, role: str) -> None:
    """Act as *role* until `reset_role`; raises psycopg's error where the login may not."""
    await conn.execute(sql.SQL("set role {}").format(sql.Identifier(role)))


async def reset_role(conn: Connection) -> None:
    """Act as the login again."""
    await conn.execute("reset role")


def local_role(role: str, settings: Mapping[str, str]) -> sql.Composed:
    """Compose what sets *settings* and *role* for the rest of a transaction, in one round trip."""
    words = [
        sql.SQL("set local {} = {}").format(sql.Identifier(name), sql.Literal(value))
        for name, value in settings.items()
    ]
    return sql.SQL("; ").join([*words, sql.SQL("set local role {}").format(sql.Identifier(role))])
