"""Code of a table's owner that `walagent why` executes: it stays the role of the agent."""

from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import role, run_all, value
from walagent.config import Config
from walagent.explain.facts import explain

# What is not confined leaves a table behind.
ATTACK = """
create schema dev;
grant usage on schema dev to public;
create type dev.mood as enum ('fine');
create function dev.attack() returns boolean language plpgsql as $$
begin
    set role none;
    create table public.escaped ();
    return true;
exception when others then
    return true;
end
$$;
create function dev.json_of(dev.mood) returns json language plpgsql
    as 'begin perform dev.attack(); return ''1''; end';
create cast (dev.mood as json) with function dev.json_of(dev.mood);
create domain dev.checked as int check (dev.attack());
create table dev.t (id dev.checked primary key, mood dev.mood);
alter domain dev.checked drop constraint checked_check;
insert into dev.t values (1, 'fine');
alter domain dev.checked add check (dev.attack()) not valid;
create table dev.spare (id int primary key, mood dev.mood);
insert into dev.spare values (1, 'fine');
"""


@pytest.mark.parametrize("table", ["dev.t", "dev.spare"])
@pytest.mark.parametrize("attached", [True, False])
async def test_why_executes_no_code_as_its_login(
    conn: AsyncConnection[Any], table: str, *, attached: bool
) -> None:
    """A cast of a column's type, a domain's check: as the agent of an attachment, or not at all."""
    async with role(conn) as agent:
        await run_all(conn, ATTACK)
        await run_all(conn, f"grant all on dev.t, dev.spare to {agent}")
        if attached:
            await conn.execute(
                "select agent.attach(%s::regclass, 'gpt-4o', name => 'desk', run_as => %s)",
                [table, agent],
            )
        await run_all(conn, "drop table if exists public.escaped")
        explanation = await explain(conn, Config(), table, "1")
    assert explanation.present is (True if attached else None)
    assert await value(conn, "select to_regclass('public.escaped') is null")


async def test_the_attack_is_one(conn: AsyncConnection[Any]) -> None:
    """It succeeds where the login itself converts the row."""
    await run_all(conn, ATTACK + "drop table if exists public.escaped")
    await value(conn, "select to_jsonb(t) from dev.spare t")
    assert await value(conn, "select to_regclass('public.escaped') is not null")
