"""In the session of a worker of one's own, no code is executed of who may not act as that worker.

The session is a person's or a program's.  A tool has the rights of its own role, but settings,
prepared statements and temporary objects that it leaves are found by the next statement there.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection, Error, errors, sql

from tests.helpers.database import role, run_all, session, until, value
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
}
NOT_CODE = {
    "schema": "create schema thing",
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
    """A role that may create."""
    async with role(conn, "login") as name:
        await run_all(conn, "create schema theirs")
        create = sql.SQL(
            "grant create, usage on schema theirs to {0}; grant create on database {1} to {0}"
        )
        await conn.execute(create.format(sql.Identifier(name), sql.Identifier(conn.info.dbname)))
        yield name


@pytest.mark.parametrize("kind", OWNED)
async def test_somebody_who_owns_something_stops_sql_tools_there(
    place: Desk, dsn: str, owner: str, kind: str
) -> None:
    """Until the worker's login says that the owner may act as it."""
    turn = await place.start()
    assert await value(place.worker, CALL, turn) == "done"
    async with session(dsn, user=owner, options="-csearch_path=theirs") as other:
        await run_all(other, OWNED[kind])
    turn = await _again(place, turn)
    with pytest.raises(errors.Error, match=owner) as refused:
        await value(place.worker, CALL, turn)
    assert refused.value.sqlstate == "WA027"
    assert "thing" in str(refused.value) or "<<>>" in str(refused.value)
    assert await value(place.worker, ASK, turn) == "ready"  # what runs elsewhere is not concerned


@pytest.mark.parametrize("kind", NOT_CODE)
async def test_what_has_no_code_stops_nothing(place: Desk, dsn: str, owner: str, kind: str) -> None:
    """Nor do the temporary tables of another session."""
    async with session(dsn, user=owner, options="-csearch_path=theirs") as other:
        await run_all(other, NOT_CODE[kind])
        assert await value(place.worker, CALL, await place.start()) == "done"


async def test_who_may_act_as_the_worker_is_no_stranger(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str
) -> None:
    """The hint is a statement that works."""
    async with session(dsn, user=owner, options="-csearch_path=theirs") as other:
        await run_all(other, OWNED["function"])
    turn = await place.start()
    with pytest.raises(errors.Error) as refused:
        await value(place.worker, CALL, turn)
    hint = refused.value.diag.message_hint or ""
    await run_all(conn, hint[hint.index("grant ") :])
    assert await value(place.worker, CALL, turn) == "done"


async def test_a_membership_by_which_nobody_can_act_is_not_enough(
    place: Desk, conn: AsyncConnection, dsn: str, owner: str
) -> None:
    """Since PostgreSQL 16 there are such."""
    if conn.info.server_version < 160000:
        pytest.skip("a member can become the role before PostgreSQL 16")
    async with session(dsn, user=owner, options="-csearch_path=theirs") as other:
        await run_all(other, OWNED["function"])
    await run_all(conn, f"grant {place.names[0]} to {owner} with set false, inherit false")
    with pytest.raises(errors.Error, match=owner) as refused:
        await value(place.worker, CALL, await place.start())
    assert refused.value.sqlstate == "WA027"


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
    async with session(dsn, user=owner, options="-csearch_path=theirs") as other:
        await run_all(other, OWNED["function"])
    record = "select agent.record_tool_result(%s, 'look_up', '\"x\"')"
    for statement in (record, ASK, CALL):
        with pytest.raises(errors.Error, match=owner) as refused:
            await value(place.worker, statement, turn)
        assert refused.value.sqlstate == "WA027", statement


async def _again(place: Desk, turn: int) -> int:
    await place.call("finish_turn", turn, "Done.")
    return await place.start("Again.")


LATE = """
begin;
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
            f"create schema xs authorization {stranger}; grant trigger on note to {stranger};"
            "grant usage on schema xs to public",
        )
        try:
            turn = await d.start()
            async with session(dsn, user=stranger) as other:
                await run_all(other, LATE)
                calling = asyncio.create_task(value(d.worker, call, turn))
                await until(
                    conn,
                    "select exists (select from pg_locks where not granted"
                    " and relation = 'note'::regclass)",
                )
                await run_all(other, "commit")
                with pytest.raises(Error, match=stranger):
                    await calling
            assert await value(d.worker, "select lower('X')") == "x"
        finally:
            await run_all(conn, "drop schema xs cascade")
