"""A type changes while a statement is checked: the login converts no literal to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import role, run_all, session, value
from walagent.errors import StatementRefusedError
from walagent.guard.outlet import open_outlet
from walagent.guard.query import Guard
from walagent.guard.role import reading_as
from walagent.store.sessions.tool_connections import ensure_login

KEY = "('x' || encode(substr(key, 1, 3), 'hex'))::bit(24)::int + 1"
# What survives a rollback: the first bytes of the key that signs everything.
THEIRS = """
create schema bobs authorization {bob};
set role {bob};
grant usage on schema bobs to public;
create table bobs.t (id int primary key, tags text[]);
grant select on bobs.t to public;
create sequence bobs.loot;
create domain bobs.tag as text;
create function bobs.f() returns boolean language sql stable as
    $f$ select '{{a}}'::bobs.tag[] is null $f$;
create function bobs.evil(text) returns boolean language plpgsql immutable as $$
begin
    perform pg_catalog.set_config('role', 'none', false);
    perform pg_catalog.setval('bobs.loot', {key}) from agent_internal.secret;
    return true;
exception when others then
    return true;
end $$;
grant usage, update on sequence bobs.loot to {runner};
reset role;
select agent.grant_runner('{runner}');
grant {analyst} to {runner};
"""
CHECK = "alter domain bobs.tag add check (bobs.evil(value))"
OTHER = "alter table bobs.t alter column tags type bobs.tag[] using tags::bobs.tag[]"
WAITS = (
    "select exists (select from pg_locks"
    " where relation = 'bobs.t'::regclass and not granted and mode = %s)"
)


@dataclass(frozen=True, slots=True)
class Attack:
    """Bob's schema, the role that reads it, and a runner that asks."""

    bob: str
    analyst: str
    runner: str


@pytest.fixture
async def attack(conn: AsyncConnection) -> AsyncIterator[Attack]:
    """With code that reads the key if a login executes it."""
    async with role(conn) as bob, role(conn, "nologin") as analyst, role(conn) as runner:
        made = THEIRS.format(bob=bob, analyst=analyst, runner=runner, key=KEY)
        await run_all(conn, made)
        yield Attack(bob, analyst, runner)
        await run_all(conn, "drop schema bobs cascade")


async def _wait(conn: AsyncConnection, mode: str) -> None:
    for _ in range(1000):
        if await value(conn, WAITS, mode):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(mode)


@pytest.mark.parametrize(
    "case",
    [
        (CHECK, "select count(*) from bobs.t where tags = '{a}'", OTHER),
        ("", "select count(*) from bobs.t where tags = '{a}'", f"{CHECK}; {OTHER}"),
        ("", "select bobs.f() from bobs.t", CHECK),
    ],
)
async def test_a_type_that_changes_between_two_looks(
    conn: AsyncConnection, dsn: str, attack: Attack, case: tuple[str, str, str]
) -> None:
    """Of a column, or in the body of a function; while the guard waits for a lock."""
    before, text, change = case
    await run_all(conn, f"set role {attack.bob}; {before or 'select'}; reset role")
    async with (
        session(dsn, user=attack.bob) as first,
        session(dsn, user=attack.bob) as second,
        session(dsn, user=attack.bob) as eye,
        AsyncExitStack() as stack,
    ):

        async def connecting() -> AsyncConnection:
            return await stack.enter_async_context(session(dsn, user=attack.runner))

        await ensure_login(conn)
        victim, worker = await connecting(), await connecting()
        outlet = await open_outlet(stack, worker, attack.analyst, connecting=connecting)
        await run_all(first, "begin; lock table bobs.t in access exclusive mode")
        async with reading_as(victim, attack.analyst):
            asked = asyncio.ensure_future(Guard(victim, outlet=outlet).evaluate(text))
            await _wait(eye, "AccessShareLock")
            locked = "begin; lock table bobs.t in access exclusive mode"
            changing = asyncio.ensure_future(run_all(second, f"{locked}; {change}; commit"))
            await _wait(eye, "AccessExclusiveLock")
            await run_all(first, "commit")
            await changing
            (said,) = await asyncio.gather(asked, return_exceptions=True)
        loot = await value(eye, "select last_value from bobs.loot")
    assert isinstance(said, StatementRefusedError)
    assert loot != await value(conn, f"select {KEY} from agent_internal.secret")
