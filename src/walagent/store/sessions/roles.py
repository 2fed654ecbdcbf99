"""Set another role for a session.

Not where code of others is executed, for it can reset the role: see
`store.sessions.tool_connections`.
"""

from typing import Any

from psycopg import AsyncConnection, sql

Connection = AsyncConnection[Any]


async def set_role(conn: Connection, role: str) -> None:
    """Set *role* until `reset_role`; raises psycopg's error if the login is not a member."""
    await conn.execute(sql.SQL("set role {}").format(sql.Identifier(role)))


async def reset_role(conn: Connection) -> None:
    """Reset the role to the login."""
    await conn.execute("reset role")
