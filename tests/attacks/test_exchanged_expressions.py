"""Edges and policies call what they called when they were created.

They are executed as the role of the workflow or policy, by the names of functions, operators and
types; who owns their schema gives the name to something else, or adds an overload that fits better.
"""

from collections.abc import AsyncIterator
from typing import Final

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.daemon import daemon
from tests.helpers.database import refused, role, rows, run_all, session, value

NODES: Final = Jsonb([{"name": "a", "kind": "router"}, {"name": "b", "kind": "router"}])
CREATE: Final = "select agent.create_workflow('w', %s, %s)"
START: Final = "select agent.start_workflow('w', '{\"n\": 1}')"
FINAL: Final = "select agent_internal.is_final(state) from agent.run where id = %s"
STATE: Final = "select state from agent.run where id = %s"
REASON: Final = "select error ->> 'reason' from agent.run where id = %s"
TRACE: Final = "select count(*) from lab.trace"
MADE: Final = """
create function lab.says(state jsonb) returns boolean language sql return true;
create function lab.counts(n bigint) returns boolean language sql return true;
create function lab.is_in(a text, b text) returns boolean language sql return true;
create operator lab.<<< (function = lab.is_in, leftarg = text, rightarg = text);
create domain lab.word as text;
grant execute on all functions in schema lab to public;
"""
THEIRS: Final = """
create sequence lab.trace;
create function lab.take() returns boolean language plpgsql as $$
begin
    raise exception 'EVE as %', current_user;
end $$;
"""
SAYS: Final = {"from": "a", "to": "b", "function": "lab.says"}
CALLS: Final = {"from": "a", "to": "b", "condition": "lab.says(state)"}
COUNTS: Final = {"from": "a", "to": "b", "condition": "lab.counts((state ->> 'n')::int)"}
OPERATES: Final = {"from": "a", "to": "b", "condition": "'a' operator(lab.<<<) (state ->> 'n')"}
CASTS: Final = {"from": "a", "to": "b", "condition": "(state ->> 'n')::lab.word = '1'"}
EXCHANGED: Final = """
drop function lab.says(jsonb);
create function lab.says(state jsonb) returns boolean language sql return lab.take();
"""
OVERLOADED: Final = """
create function lab.counts(n int) returns boolean language sql return lab.take();
"""
OPERATED: Final = """
drop operator lab.<<< (text, text);
create function lab.other(a text, b text) returns boolean language sql return lab.take();
create operator lab.<<< (function = lab.other, leftarg = text, rightarg = text);
"""
LISTED: Final = """
drop table lab.listed;
create view lab.listed as select 1 as n where lab.take();
"""
TYPED: Final = """
drop domain lab.word;
create domain lab.word as text check (lab.take());
"""


@pytest.fixture
async def eve(conn: AsyncConnection) -> AsyncIterator[str]:
    """Who owns the schema of what edges call."""
    async with role(conn) as owner:
        await run_all(
            conn,
            f"create schema lab authorization {owner}; grant usage on schema lab to public; {MADE}",
        )
        yield owner
        await run_all(conn, "drop schema lab cascade; delete from agent.workflow")


async def outcome(conn: AsyncConnection, dsn: str) -> tuple[str, str]:
    """Execute the workflow; return how it ended, and why."""
    async with daemon(conn, dsn, {}, parts=("worker",)) as d:
        run = await value(conn, START)
        await d.until(FINAL, run)
    return await value(conn, STATE, run), str(await value(conn, REASON, run))


@pytest.mark.parametrize(
    ("edge", "exchanged"),
    [
        (SAYS, EXCHANGED),
        (CALLS, EXCHANGED),
        (COUNTS, OVERLOADED),
        (OPERATES, OPERATED),
        (CASTS, TYPED),
    ],
    ids=["function", "call", "overload", "operator", "type"],
)
async def test_what_an_edge_calls_is_not_exchanged(
    conn: AsyncConnection, dsn: str, eve: str, edge: dict[str, str], exchanged: str
) -> None:
    """The run fails and names both owners; nothing of the other was executed."""
    await value(conn, CREATE, NODES, Jsonb([edge]))
    async with session(dsn, user=eve) as other:
        await run_all(other, f"{THEIRS} {exchanged}")
    state, reason = await outcome(conn, dsn)
    assert "EVE" not in reason
    assert (state, f'belongs to role "{eve}"' in reason) == ("failed", True), reason


@pytest.mark.parametrize("edge", [SAYS, CALLS, COUNTS, OPERATES, CASTS])
async def test_what_its_owner_does_with_it_stops_nothing(
    conn: AsyncConnection, dsn: str, eve: str, edge: dict[str, str]
) -> None:
    """It is replaced, or has an overload of the same owner."""
    await value(conn, CREATE, NODES, Jsonb([edge]))
    await run_all(
        conn,
        "create or replace function lab.says(state jsonb) returns boolean language sql return true;"
        "create function lab.counts(n int) returns boolean language sql return true;"
        "grant execute on all functions in schema lab to public",
    )
    assert (await outcome(conn, dsn))[0] == "succeeded"


async def test_an_edge_is_not_created_beside_an_overload_of_another(
    conn: AsyncConnection, dsn: str, eve: str
) -> None:
    """It could be called in the place of the function that was meant."""
    async with session(dsn, user=eve) as other:
        await run_all(other, f"{THEIRS} {OVERLOADED}")
    edge = {**COUNTS, "condition": "lab.counts((state ->> 'n')::bigint)"}
    error = await refused(conn, CREATE, NODES, Jsonb([edge]), state="WA025")
    assert "lab.counts" in str(error)


CALLED: Final = (
    "insert into agent.policy (name, point, action, condition) values ('p', 'tool', %s, %s)"
)
DECIDED: Final = (
    "select d ->> 'action', d ->> 'reason'"
    " from agent_internal.decide_policy('tool', 'before', '{}') d"
)


@pytest.mark.parametrize(
    ("condition", "exchanged"),
    [
        ("lab.says(call)", EXCHANGED),
        ("lab.counts((call ->> 'n')::int)", OVERLOADED),
        ("'a' operator(lab.<<<) (call ->> 'n')", OPERATED),
        ("(call ->> 'n')::lab.word is null", TYPED),
        ("exists (select from lab.listed)", LISTED),
    ],
    ids=["function", "overload", "operator", "type", "relation"],
)
async def test_what_a_policy_calls_is_not_exchanged(
    conn: AsyncConnection, dsn: str, eve: str, condition: str, exchanged: str
) -> None:
    """The policy denies and names both owners; nothing of the other was executed."""
    await run_all(conn, "create table lab.listed (n int); insert into lab.listed values (1)")
    await run_all(conn, "select agent_internal.make_policy_trampolines()")
    await conn.execute(CALLED.encode(), ("allow", condition))
    await run_all(conn, "select agent_internal.make_policy_trampolines()")
    assert await rows(conn, DECIDED) == [("allow", None)]
    async with session(dsn, user=eve) as other:
        await run_all(other, f"{THEIRS} {exchanged}")
    ((decided, reason),) = await rows(conn, DECIDED)
    assert "EVE" not in reason
    assert (decided, f'belongs to role "{eve}"' in reason) == ("deny", True), reason
    await run_all(conn, "delete from agent.policy")


async def test_a_policy_is_not_resolved_by_a_schema_that_comes_first(
    conn: AsyncConnection, dsn: str, eve: str
) -> None:
    """Its names mean what they meant in the search_path of who created it."""
    await run_all(
        conn,
        "create schema own; create function own.fine(call jsonb) returns boolean"
        " language sql return true; set search_path = lab, own, public",
    )
    await conn.execute(CALLED.encode(), ("allow", "fine(call)"))
    await run_all(conn, "select agent_internal.make_policy_trampolines()")
    async with session(dsn, user=eve) as other:
        first = "create function lab.fine(call jsonb) returns boolean language sql"
        await run_all(other, f"{THEIRS} {first} return lab.take()")
    ((decided, reason),) = await rows(conn, DECIDED)
    assert (decided, reason) == ("allow", None)
    await run_all(conn, "delete from agent.policy; drop schema own cascade; reset search_path")
