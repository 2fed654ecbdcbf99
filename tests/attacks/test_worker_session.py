"""In the session of a worker of one's own, no code is executed of who may not act as that worker.

The session is a person's or a program's.  A tool has the rights of its own role, but settings,
prepared statements and temporary objects that it leaves are found by the next statement there.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection, errors

from tests.helpers.database import refused, role, run_all, session, until_waiting, value
from tests.integration.own_worker.rig import Desk, desk

CALL = "select agent.process_tool_call(%s, 'add_note', '{\"text\": \"a\"}') ->> 'status'"
ASK = "select agent.process_tool_call(%s, 'look_up', '{\"query\": \"a\"}') ->> 'status'"
# What somebody can own.  Code of the owner is in it, or can be.
OWNED = {
    "table": "create table thing (id int default 1)",
    "partitioned table": "create table thing (id int) partition by list (id)",
    "view": "create view thing as select set_config('search_path', 'x', false)",
    "materialized view": "create materialized view thing as select 1 as id",
    "function": "create function thing() returns int language sql return 1",
    "procedure": "create procedure thing() language sql as 'select 1'",
    "aggregate": "create aggregate thing (int) (sfunc = int4pl, stype = int)",
    "domain": "create domain thing as text check (value <> '')",
    "row type": "create type thing as (id int)",
    "enumeration": "create type thing as enum ('a')",
    "range": "create type thing as range (subtype = int)",
    "operator": "create operator <<>> (function = int4eq, leftarg = int, rightarg = int)",
    "collation": 'create collation thing from "C"',
    "conversion": "create conversion thing for 'LATIN1' to 'UTF8' from iso8859_1_to_utf8",
    "text search": "create text search configuration thing (copy = simple)",
    "schema": "create schema thing",
}
NOT_CODE = {
    "sequence": "create sequence thing",
    "temporary table": "create temporary table thing (id int)",
}


@pytest.fixture
async def place(conn: AsyncConnection, dsn: str) -> AsyncIterator[Desk]:
    """A worker, and somebody who can create in a schema."""
    async with desk(conn, dsn) as d:
        yield d


@pytest.fixture
async def owner(conn: AsyncConnection) -> AsyncIterator[str]:
    """A role, and a schema."""
    async with role(conn, "login") as name:
        await run_all(conn, f"create schema theirs; grant usage on schema theirs to {name}")
        yield name


async def own(conn: AsyncConnection, dsn: str, owner: str, statement: str) -> None:
    """Let the role create something, and nothing later."""
    places = f"schema theirs {{}} {owner}; {{}} create on database {conn.info.dbname} {{}} {owner}"
    await run_all(conn, f"grant create on {places.format('to', 'grant', 'to')}")
    async with session(dsn, user=owner, options="-csearch_path=theirs") as other:
        await run_all(other, statement)
    await run_all(conn, f"revoke create on {places.format('from', 'revoke', 'from')}")


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", OWNED)
async def test_somebody_who_owns_something_stops_sql_tools_there(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str, kind: str
) -> None:
    """Until the worker's login says that the owner may act as it."""
    turn = await place.start()
    assert await value(place.worker, CALL, turn) == "done"
    await own(conn, dsn, owner, OWNED[kind])
    turn = await _again(place, turn)
    with pytest.raises(errors.Error, match=owner) as error:
        await value(place.worker, CALL, turn)
    assert error.value.sqlstate == "WA027"
    assert "thing" in str(error.value) or "<<>>" in str(error.value)
    assert await value(place.worker, ASK, turn) == "ready"  # what runs elsewhere is not concerned


@pytest.mark.parametrize("kind", NOT_CODE)
async def test_what_has_no_code_stops_nothing(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str, kind: str
) -> None:
    """Nor do the temporary tables of another session."""
    async with session(dsn, user=owner) as other:
        if kind == "temporary table":
            await run_all(other, NOT_CODE[kind])
        else:
            await own(conn, dsn, owner, NOT_CODE[kind])
        assert await value(place.worker, CALL, await place.start()) == "done"


@pytest.mark.parametrize(
    "may",
    [
        "grant create on schema theirs to {owner}",
        "alter schema theirs owner to {owner}",
        "grant create on schema theirs to public",
        "grant trigger on note to {owner}; grant create on database {database} to {owner}",
    ],
)
async def test_who_may_create_something_stops_them_too(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str, may: str
) -> None:
    """A function that is there for the time of a call can be gone again when one looks."""
    turn = await place.start()
    assert await value(place.worker, CALL, turn) == "done"
    await run_all(conn, may.format(owner=owner, database=conn.info.dbname))
    turn = await _again(place, turn)
    with pytest.raises(errors.Error, match="who may create") as error:
        await value(place.worker, CALL, turn)
    assert error.value.sqlstate == "WA027"
    assert await value(place.worker, ASK, turn) == "ready"


async def test_who_may_act_as_the_worker_is_no_stranger(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str
) -> None:
    """The hint is a statement that works."""
    await own(conn, dsn, owner, OWNED["function"])
    turn = await place.start()
    with pytest.raises(errors.Error) as error:
        await value(place.worker, CALL, turn)
    hint = error.value.diag.message_hint or ""
    await run_all(conn, hint[hint.index("grant ") :])
    assert await value(place.worker, CALL, turn) == "done"


async def test_a_membership_by_which_nobody_can_act_is_not_enough(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str
) -> None:
    """Since PostgreSQL 16 there are such."""
    if conn.info.server_version < 160000:
        pytest.skip("a member can become the role before PostgreSQL 16")
    await own(conn, dsn, owner, OWNED["function"])
    await run_all(conn, f"grant {place.names[0]} to {owner} with set false, inherit false")
    with pytest.raises(errors.Error, match=owner) as error:
        await value(place.worker, CALL, await place.start())
    assert error.value.sqlstate == "WA027"


@pytest.mark.parametrize("action", ["deny", "transform"])
async def test_policies_are_not_evaluated_there_either(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str, action: str
) -> None:
    """Neither before a call nor for its result, whatever the kind of the tool."""
    what = {"deny": "false", "transform": "call"}[action]
    turn = await place.start()
    assert await value(place.worker, ASK, turn) == "ready"
    column = {"deny": "condition", "transform": "expression"}[action]
    await run_all(
        conn,
        f"insert into agent.policy (tenant, name, point, phase, action, {column}, run_as)"
        f" values ('default', 'p', 'tool', 'before', '{action}', '{what}', current_user)",
    )
    await own(conn, dsn, owner, OWNED["function"])
    record = "select agent.record_tool_result(%s, 'look_up', '\"x\"')"
    for statement in (record, ASK, CALL):
        with pytest.raises(errors.Error, match=owner) as error:
            await value(place.worker, statement, turn)
        assert error.value.sqlstate == "WA027", statement


async def _again(place: Desk, turn: int) -> int:
    await place.call("finish_turn", turn, "Done.")
    return await place.start("Again.")


LATE = """
begin;
create schema xs authorization {stranger};
grant usage on schema xs to public;
set role {stranger};
create function xs.leave() returns trigger language plpgsql as $$
begin
    perform pg_catalog.set_config('search_path', 'xs, pg_catalog', false);
    return new;
end $$;
create function xs.lower(text) returns text language plpgsql as
    $$ begin return 'I am ' || current_user; end $$;
create trigger leave before insert on public.note for each row execute function xs.leave()
"""


async def test_what_is_created_while_the_tool_waits_leaves_nothing(
    conn: AsyncConnection, dsn: str
) -> None:
    """Who may create triggers on the table of the tool, and nothing was there at the first look."""
    call = "select agent.process_tool_call(%s, 'add_note', '{\"text\": \"a\"}') ->> 'status'"
    async with desk(conn, dsn) as d, role(conn) as stranger:
        await run_all(
            conn,
            f"grant trigger on note to {stranger}",
        )
        try:
            turn = await d.start()
            async with session(dsn) as other:
                await run_all(other, LATE.format(stranger=stranger))
                calling = asyncio.create_task(value(d.worker, call, turn))
                await until_waiting(
                    conn,
                    "select exists (select from pg_locks where not granted"
                    " and relation = 'note'::regclass)",
                    calling,
                )
                await run_all(other, "commit")
                with pytest.raises(errors.AdminShutdown):
                    await calling
            assert d.worker.closed
        finally:
            await run_all(conn, "drop schema xs cascade")


# While the tool works.  No error takes back what was prepared.
PREPARED = """
create function theirs.spy() returns trigger language plpgsql as $$
begin
    execute 'deallocate mine';
    execute 'prepare mine as select ''I am '' || current_user';
    {end}
end $$;
create trigger spy before insert on public.note for each row execute function theirs.spy()
"""
ENDS = {
    "returns": "return new;",
    "fails": "raise exception 'a failure';",
    "is repeatable": "raise exception 'again' using errcode = '40001';",
    "cancels": "raise exception 'cancelled' using errcode = '57014', constraint = 'own_session';",
    "asserts": "assert false;",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("end", ENDS)
async def test_a_session_ends_in_which_a_stranger_has_prepared_a_statement(
    conn: AsyncConnection, dsn: str, end: str
) -> None:
    """Whatever the code does at its end: the worker goes on in another session."""
    async with desk(conn, dsn) as d, role(conn) as stranger:
        await run_all(
            conn,
            "create or replace function add_note(text text) returns text language plpgsql as $$"
            " begin perform pg_advisory_xact_lock(4711); insert into note (text) values ($1);"
            f" return 'noted'; end $$; grant trigger on note to {stranger}",
        )
        turn = await d.start()
        await d.worker.execute("prepare mine as select 'mine'::text")
        async with session(dsn, user=stranger) as other:
            await run_all(conn, "select pg_advisory_lock(4711)")
            calling = asyncio.create_task(value(d.worker, CALL, turn))
            waits = (
                "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
            )
            await until_waiting(conn, waits, calling)
            await run_all(
                conn,
                f"create schema theirs authorization {stranger};"
                "grant usage on schema theirs to public",
            )
            await run_all(other, PREPARED.format(end=ENDS[end]))
            await run_all(conn, "select pg_advisory_unlock(4711)")
            with pytest.raises(errors.AdminShutdown):
                await calling
        assert d.worker.closed
        assert await value(conn, "select count(*) from note") == 0
        await run_all(conn, "drop schema theirs cascade")


LOCKS = "pg_advisory_lock(4711) is null"
HELD = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"


async def test_a_policy_of_who_owns_nothing_is_not_evaluated_there(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str
) -> None:
    """Its condition is code, and its author needs to own nothing."""
    app = place.names[2]
    await run_all(conn, f"select agent.grant_developer('{owner}'); grant {app} to {owner}")
    async with session(dsn, user=owner) as other:
        await run_all(
            other,
            "insert into agent.policy (tenant, name, point, phase, action, condition, run_as)"
            f" values ('default', 'p', 'tool', 'before', 'deny', '{LOCKS}', '{app}')",
        )
    turn = await place.start()
    for statement in (ASK, CALL):
        with pytest.raises(errors.Error, match=f'"{app}", as whom policy "p"') as error:
            await value(place.worker, statement, turn)
        assert error.value.sqlstate == "WA027"
    assert await value(conn, HELD, place.worker.info.backend_pid) == 0


async def test_a_policy_that_was_made_after_the_look_is_not_evaluated_there(
    place: Desk, conn: AsyncConnection
) -> None:
    """Nor if it is gone at the next look: each is judged when it is evaluated."""
    await run_all(
        conn,
        "insert into agent.policy (tenant, name, point, phase, action, condition, run_as)"
        f" values ('default', 'p', 'tool', 'before', 'deny', '{LOCKS}', '{place.names[2]}');"
        "set walagent.own_session = 'on'",
    )
    evaluate = "select agent_internal.evaluate(p, 'condition', '{}') from agent.policy p"
    error = await refused(conn, evaluate, state="WA022")
    assert place.names[2] in str(error)


async def test_the_condition_of_a_trigger_of_who_owns_nothing_is_not_evaluated_there(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str
) -> None:
    """PostgreSQL does not record who has written it."""
    await run_all(conn, f"grant trigger on note to {owner}")
    async with session(dsn, user=owner) as other:
        await run_all(
            other,
            f"create trigger t before insert on note for each row when ({LOCKS})"
            " execute function suppress_redundant_updates_trigger()",
        )
    with pytest.raises(errors.Error, match=f'"{owner}", who may create triggers') as error:
        await value(place.worker, CALL, await place.start())
    assert error.value.sqlstate == "WA027"
    assert await value(conn, HELD, place.worker.info.backend_pid) == 0
