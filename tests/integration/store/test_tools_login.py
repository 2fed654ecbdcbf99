"""The login for code of others, which the first worker creates."""

import asyncio
from base64 import b64decode

from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from tests.helpers.database import role, run_all, session, until, value
from walagent.store.sessions.tool_connections import ensure_login, verifier_of

WAITS = (
    "select count(*) = 1 from pg_stat_activity"
    " where datname = current_database() and wait_event_type = 'Lock'"
)


async def test_two_workers_create_the_login_at_once(conn: AsyncConnection, dsn: str) -> None:
    """The second one finds it: neither ends."""
    name = await value(conn, "select agent_internal.tools_login()")
    login = sql.Identifier(name)
    await conn.execute(sql.SQL("drop role if exists {}").format(login))
    async with session(dsn) as first, session(dsn) as second:
        async with first.transaction():
            await first.execute(sql.SQL("create role {} login").format(login))
            creating = asyncio.create_task(ensure_login(second))
            await until(conn, WAITS)
        assert await creating == ""
    assert await value(conn, "select rolcanlogin from pg_roles where rolname = %s", name)


async def test_a_login_that_may_not_be_created_has_one_statement(
    conn: AsyncConnection, dsn: str
) -> None:
    """Each attempt logs it: a new salt each time would look like another statement."""
    name = await value(conn, "select agent_internal.tools_login()")
    await conn.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(name)))
    async with role(conn, "login") as runner:
        await run_all(conn, f"select agent.grant_runner('{runner}')")
        async with session(make_conninfo(dsn, user=runner)) as worker:
            made = [await ensure_login(worker) for _ in range(2)]
    assert made[0] == made[1]
    assert name in made[0]


async def test_a_verifier_is_that_of_libpq(conn: AsyncConnection) -> None:
    """For its salt."""
    verifier = conn.pgconn.encrypt_password(b"secret", b"someone", b"scram-sha-256").decode()
    salt = b64decode(verifier.split("$")[1].split(":")[1])
    assert verifier_of("secret", salt) == verifier
