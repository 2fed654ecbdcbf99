"""Several sessions that need a role's function at once."""

import asyncio

from psycopg import AsyncConnection

from tests.helpers.database import role, session, until, value

MAKE = "select agent_internal.make_trampoline('{0}')"
PRESENT = "select oid::int8 from pg_proc where proname = 'as_' || to_regrole('{0}')::oid"
WAITING = "select count(*) = %s from pg_stat_activity where wait_event_type = 'Lock'"


async def test_who_waited_for_it_takes_what_another_made(conn: AsyncConnection, dsn: str) -> None:
    """A second one, in its place, would be lost to whoever has begun to use the first."""
    async with (
        role(conn, "nologin") as name,
        session(dsn) as first,
        session(dsn) as second,
        session(dsn) as third,
    ):
        async with first.transaction():
            await value(first, MAKE.format(name))
            others = [
                asyncio.create_task(value(each, MAKE.format(name))) for each in (second, third)
            ]
            await until(conn, WAITING, 2)
        made = await value(conn, PRESENT.format(name))
        await asyncio.gather(*others)
        assert await value(conn, PRESENT.format(name)) == made
