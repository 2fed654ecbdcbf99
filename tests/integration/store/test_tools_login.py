"""The login for code of others, which the first worker creates."""

import asyncio

from psycopg import AsyncConnection, sql

from tests.helpers.database import session, until, value
from walagent.store.sessions.tool_connections import ensure_login

WAITS = (
    "select count(*) = 1 from pg_stat_activity"
    " where datname = current_database() and wait_event_type = 'Lock'"
)


async def test_two_workers_create_the_login_at_once(conn: AsyncConnection, dsn: str) -> None:
    """The second one finds it: neither ends."""
    name = await value(conn, "select agent_internal.tools_login()")
    role = sql.Identifier(name)
    await conn.execute(sql.SQL("drop role if exists {}").format(role))
    async with session(dsn) as first, session(dsn) as second:
        async with first.transaction():
            await first.execute(sql.SQL("create role {} login").format(role))
            creating = asyncio.create_task(ensure_login(second))
            await until(conn, WAITS)
        assert await creating == ""
    assert await value(conn, "select rolcanlogin from pg_roles where rolname = %s", name)
