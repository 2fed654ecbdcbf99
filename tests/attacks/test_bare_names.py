"""An expression that calls PostgreSQL by a name alone calls nothing of another that fits better.

Edges and policies are executed with the path of their author, so that what they call finds its
tables: a function or operator in a schema of that path, whose arguments fit without a cast, would
be called in the place of PostgreSQL's own.
"""

from collections.abc import AsyncIterator
from typing import Final

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.attacks.test_exchanged_expressions import CALLED, CREATE, DECIDED, NODES, THEIRS, outcome
from tests.helpers.database import role, rows, run_all, session, value

TAKES: Final = "language sql return lab.take()"
OPERATOR: Final = (
    "function lab.op(int, numeric) returns {0} {t}; "
    "create operator lab.{1} (function = lab.op, leftarg = int, rightarg = numeric)"
)
DEFAULTED: Final = (
    "create function lab.concat(text, int, lab.e = '1') returns text {t}::text"  # may be left out
)
# An expression over {v}, and what would be called in it; {t} becomes the body.
CASES: Final = {
    "concat": (
        "concat({v} ->> 'n', 1) <> ''",
        "function lab.concat(text, int) returns text {t}::text",
    ),
    "jsonb": (
        "jsonb_build_object('a', {v}) is not null",
        "function lab.jsonb_build_object(text, jsonb) returns jsonb {t}::text::jsonb",
    ),
    "array": (
        "array_length(array[1], 1) = 1",
        "function lab.array_length(int[], int) returns int {t}::int",
    ),
    "quoted": (
        "left({v} ->> 'n', 1::smallint) = '1'",
        'function lab."left"(text, smallint) returns text {t}::text',
    ),
    "operator": (
        "({v} ->> 'n')::int + 1.5 > 0",
        OPERATOR.replace("{0}", "numeric").replace("{t}", "{t}::int").replace("{1}", "+"),
    ),
    "in": (
        "({v} ->> 'n')::int in (1, 2.5)",
        OPERATOR.replace("{0}", "boolean").replace("{1}", "="),
    ),
    "nullif": (
        "nullif(({v} ->> 'n')::int, 2.5) is not null",
        OPERATOR.replace("{0}", "boolean").replace("{1}", "="),
    ),
    "domain": (
        "concat({v} ->> 'n', 1) <> ''",
        "domain lab.n as int; create function lab.concat(text, lab.n) returns text {t}::text",
    ),
    "default": (
        "concat({v} ->> 'n', 1) <> ''",
        f"type lab.e as enum ('1'); {DEFAULTED}",
    ),
    "cast": (
        "concat({v} ->> 'n', 1) <> ''",
        (
            "type lab.mood as enum ('1'); create function lab.to_mood(int) returns lab.mood"
            " language sql immutable return '1'::lab.mood;"
            " create cast (int as lab.mood) with function lab.to_mood(int) as implicit;"
            " create function lab.concat(text, lab.mood) returns text {t}::text"
        ),
    ),
}
LATER: Final = {
    "length": ("length({v} ->> 'n') = 1", "function lab.length(text) returns int {t}::int"),
    "type": ("({v} ->> 'n')::text = '1'", "domain lab.text as varchar check (lab.take())"),
}
PATHS: Final = {"implicit": ("lab, public", CASES), "explicit": ("lab, pg_catalog, public", LATER)}
OF_ALL: Final = [
    pytest.param((path, condition, trap), id=f"{which}-{name}")
    for which, (path, cases) in PATHS.items()
    for name, (condition, trap) in cases.items()
]


@pytest.fixture
async def eve(conn: AsyncConnection) -> AsyncIterator[str]:
    """Who owns a schema of the path."""
    async with role(conn) as owner:
        schema = f"create schema lab authorization {owner}; grant usage on schema lab to public"
        await run_all(conn, schema)
        yield owner
        await run_all(
            conn, "delete from agent.policy; delete from agent.workflow; drop schema lab cascade"
        )


def trapped(trap: str) -> str:
    """The statements that lay it."""
    return f"{THEIRS} create {trap.replace('{t}', TAKES)}"


@pytest.mark.parametrize("case", OF_ALL)
async def test_a_policy_calls_postgresqls_own(
    conn: AsyncConnection, dsn: str, eve: str, case: tuple[str, str, str]
) -> None:
    """It denies, and names who has put something there."""
    path, condition, trap = case
    await run_all(conn, f"set search_path = {path}")
    await conn.execute(CALLED.encode(), ("allow", condition.format(v="call")))
    await run_all(conn, "reset search_path; select agent_internal.make_policy_trampolines()")
    async with session(dsn, user=eve) as other:
        await run_all(other, trapped(trap))
    ((decided, reason),) = await rows(conn, DECIDED)
    assert "EVE" not in reason
    assert (decided, f'belongs to role "{eve}"' in reason) == ("deny", True), reason


@pytest.mark.few(2)
@pytest.mark.parametrize("case", OF_ALL)
async def test_an_edge_calls_postgresqls_own(
    conn: AsyncConnection, dsn: str, eve: str, case: tuple[str, str, str]
) -> None:
    """The run fails, and names who has put something there."""
    path, condition, trap = case
    await run_all(conn, f"set search_path = {path}")
    edge = {"from": "a", "to": "b", "condition": condition.format(v="state")}
    await value(conn, CREATE, NODES, Jsonb([edge]))
    await run_all(conn, "reset search_path")
    async with session(dsn, user=eve) as other:
        await run_all(other, trapped(trap))
    state, reason = await outcome(conn, dsn)
    assert "EVE" not in reason
    assert (state, f'belongs to role "{eve}"' in reason) == ("failed", True), reason


async def test_operators_of_a_type_of_others_stop_nothing(
    conn: AsyncConnection, dsn: str, eve: str
) -> None:
    """An extension has them in a schema that everybody's path names: they do not fit here."""
    async with session(dsn, user=eve) as other:
        await run_all(
            other,
            "create type lab.mood as enum ('fine'); create function lab.same(lab.mood, lab.mood)"
            " returns boolean language sql return true; create operator lab.="
            " (function = lab.same, leftarg = lab.mood, rightarg = lab.mood);"
            "create function lab.length(lab.mood) returns int language sql return 1",
        )
    await run_all(conn, "set search_path = lab, public")
    condition = "length(call ->> 'n') = 1 or true"
    await conn.execute(CALLED.encode(), ("allow", condition))
    await run_all(conn, "reset search_path; select agent_internal.make_policy_trampolines()")
    assert await rows(conn, DECIDED) == [("allow", None)]


async def test_schemas_of_a_path_are_read_as_postgresql_reads_them(conn: AsyncConnection) -> None:
    """Quotes in names, capitals without quotes, and the schema of the role."""
    named = "select agent_internal.names_called_bare('left(x)', %s, 'ann') -> 0 ->> 'schema'"
    for path, schema in (('"a"""', 'a"'), ("Lab", "lab"), ('"Lab"', "Lab"), ('"$user"', "ann")):
        assert await value(conn, named, path) == schema
