"""Code of others that a condition or a backfill executes: it stays the role of the agent."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.build import attachment
from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, refused, role, rows, run_all, until, value
from tests.integration.wal.reading import FREE
from walagent.config import Replication
from walagent.config.dsn import Places
from walagent.domain.change import Change, Op, Relation
from walagent.intake.conditions import open_evaluator
from walagent.intake.gap_plan import GapPlan
from walagent.intake.recovery import RowRecovery
from walagent.matching.match import Match
from walagent.postgres.lsn import Lsn
from walagent.replication.resync import resync
from walagent.store.errors import translating
from walagent.store.gaps import GapChoice

# Each of these gives a stronger role, the key that signs writes, or a command on the server.
GOALS = (
    "set role none",
    "reset role",
    "set session authorization default",
    "reset session authorization",
    "select set_config('role', 'none', false)",
    "select key from agent_internal.secret",
    "select from agent.run",
    "select agent.approve(1)",
    "alter function agent_call.x() security invoker",
    "copy (select 1) to program 'true'",
    "create table public.escaped ()",
)
ATTACK = """
create schema dev;
grant usage on schema dev to public;
create function dev.attack() returns boolean language plpgsql as $$
declare
    goal text;
    me   text := current_user;
begin
    foreach goal in array array[{goals}] loop
        begin
            execute goal;
            if goal !~ 'set' then
                raise exception 'ESCAPED by %', goal using errcode = 'P9999';
            end if;
        exception
            when sqlstate 'P9999' then raise;
            when others then null;
        end;
        if current_user <> me or (select rolsuper from pg_roles where rolname = current_user) then
            raise exception 'ESCAPED to % by %', current_user, goal using errcode = 'P9999';
        end if;
    end loop;
    if current_user <> 'AGENT' then
        raise exception 'ESCAPED: is %', current_user using errcode = 'P9999';
    end if;
    return true;
end
$$;
create function dev.harmless(anyelement) returns boolean language sql as 'select dev.attack()';
create domain dev.checked as text check (dev.attack());
create type dev.holder as (inside dev.checked);
create type dev.odd as (x int);
create function dev.odd_of(text) returns dev.odd language plpgsql
    as 'begin perform dev.attack(); return row(1)::dev.odd; end';
create cast (text as dev.odd) with function dev.odd_of(text);
create function dev.text_of(dev.odd) returns text language plpgsql
    as 'begin perform dev.attack(); return ''odd''; end';
create cast (dev.odd as text) with function dev.text_of(dev.odd);
create function dev.same(dev.odd, int) returns boolean language sql as 'select dev.attack()';
create operator dev.=== (leftarg = dev.odd, rightarg = int, function = dev.same);
create table dev.t (
    id int primary key, a text, big text, list dev.checked[], held dev.holder, odd dev.odd
);
alter table dev.t alter big set storage external;
alter table dev.t replica identity default;
create function dev.of_row(int) returns int immutable language plpgsql
    as 'begin perform dev.attack(); return 1; end';
"""
CONDITIONS = {
    "a list of a domain": "new.list is not null",
    "a composite of a domain": "new.held is not null",
    "a policy of the table": "length(new.big) > 4000",
}
REFUSED = {  # when it is attached; but that check is not what holds
    "a cast to a list of a domain": "('{' || new.a || '}')::dev.checked[] is not null",
    "an operator": "new.odd operator(dev.===) 1",
    "a cast to text": "new.odd::text = 'odd'",
    "a cast from text": "new.a::dev.odd is not null",
    "a function": "dev.harmless(new.a)",
}


@pytest.fixture
async def agent(conn: AsyncConnection[Any]) -> AsyncIterator[str]:
    """A role that owns what attacks; the login of the reader is a superuser."""
    await run_all(conn, DESK)
    async with role(conn) as name:
        goals = ", ".join(f"$q${goal}$q$" for goal in GOALS)
        await run_all(conn, ATTACK.format(goals=goals).replace("AGENT", name))
        await run_all(conn, f"grant all on dev.t to {name}")
        yield name


@pytest.mark.few(1)
@pytest.mark.parametrize("what", CONDITIONS)
async def test_a_condition_cannot_leave_its_role(
    conn: AsyncConnection[Any], dsn: str, agent: str, what: str
) -> None:
    """Whatever it runs: types, casts, operators, functions, and policies of a table it looks up."""
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await conn.execute(
            "select agent.attach('dev.t'::regclass, 'fake', name => 'desk', condition => %s,"
            " ops => '{insert,update}', run_as => %s)",
            [CONDITIONS[what], agent],
        )
        await run_all(
            conn,
            "alter domain dev.checked drop constraint checked_check;"
            "insert into dev.t values (1, '{x}', repeat('x', 5000), '{x}', row('x'), row(1));"
            "alter domain dev.checked add check (dev.attack()) not valid;"
            "alter table dev.t enable row level security;"
            "create policy p on dev.t using (dev.attack());"
            "update dev.t set a = '{y}'",
        )
        await d.caught_up()
    found = await rows(conn, "select state::text, error::text from agent.run order by id")
    assert found
    assert all("ESCAPED" not in str(error) for _, error in found), found
    assert any(state != "dead" for state, _ in found), found
    assert await value(conn, "select to_regclass('public.escaped') is null")


@pytest.mark.parametrize("what", REFUSED)
async def test_what_attach_would_refuse_cannot_leave_its_role_either(
    conn: AsyncConnection[Any], agent: str, what: str
) -> None:
    """The same for conditions that were compiled before a function was replaced."""
    oid = await value(conn, "select 'dev.t'::regclass::oid::bigint")
    on = attachment(
        relation_oid=oid, schema="dev", table="t", run_as=agent, condition=REFUSED[what],
        condition_columns=("a", "odd"), model="fake",
    )  # fmt: skip
    relation = Relation(0, "dev", "t")
    new = {"id": 1, "a": "(1)", "odd": "(1)"}
    match = Match(on, Change(Lsn(1), 0, Op.INSERT, relation, new, None), None)
    async with open_evaluator(conn) as evaluator:
        assert await evaluator.evaluate([match]) == [match]


async def test_the_attack_is_one(conn: AsyncConnection[Any], agent: str) -> None:
    """It succeeds where a login that can become others calls it after SET ROLE."""
    async with conn.transaction(force_rollback=True):
        await run_all(conn, f"set local role {agent}")
        error = await refused(conn, "select dev.attack()")
    assert "ESCAPED" in str(error)


# Code of the table's owner, which is executed when the table is read, or only planned to be read.
PLANTED = """
alter domain dev.checked drop constraint checked_check;
insert into dev.t values (1, '{x}', 'x', '{x}', row('x'), row(1));
create or replace function dev.of_row(int) returns int immutable language sql as 'select 1';
create index on dev.t ((id + dev.of_row(1)));
create or replace function dev.of_row(int) returns int immutable language plpgsql
    as 'begin perform dev.attack(); return 1; end';
alter domain dev.checked add check (dev.attack()) not valid;
alter table dev.t enable row level security;
create policy p on dev.t using (dev.attack());
"""


async def test_a_backfill_cannot_leave_its_role(
    conn: AsyncConnection[Any], dsn: str, agent: str
) -> None:
    """It reads rows, whose policies, index expressions and casts are code of the table's owner."""
    await run_all(conn, PLANTED)
    async with daemon(conn, dsn, parts=("reader",)):
        await conn.execute(
            "select agent.attach('dev.t'::regclass, 'fake', name => 'desk', ops => '{insert}',"
            " backfill => true, run_as => %s)",
            [agent],
        )
        await until(conn, "select state in ('done', 'failed') from agent.backfill")
    assert await rows(conn, "select state, error from agent.backfill") == [("done", None)]
    assert await value(conn, "select count(*) from agent.run") == 1


async def test_a_resync_cannot_leave_its_role(
    conn: AsyncConnection[Any], dsn: str, agent: str
) -> None:
    """The operator, often a superuser, reads changed rows: policies and index expressions run."""
    settings = Replication(slot=conn.info.dbname)
    await run_all(conn, PLANTED)
    await run_all(conn, "alter table dev.t add changed_at timestamptz default now()")
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await conn.execute(
            "select agent.attach('dev.t'::regclass, 'fake', name => 'desk', ops => '{insert}',"
            " run_as => %s)",
            [agent],
        )
        await d.caught_up()
    await until(conn, FREE, conn.info.dbname)
    await run_all(conn, "select pg_drop_replication_slot(current_database())")
    with translating():
        plan = GapPlan({"desk": GapChoice("since", "changed_at")})
        done = await resync(conn, Places(dsn, dsn), settings, RowRecovery(dsn, plan))
    (one,) = (each for each in done.made if each.attachment == "desk")
    assert (one.rows, one.runs, one.undated) == (1, 1, 0)
