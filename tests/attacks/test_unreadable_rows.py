"""A row that cannot be read ends its own run, and no worker."""

from decimal import Decimal
from typing import Final

import orjson
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import attach, role, rows, run_all, session, value
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.codecs.exact import exact, read_json

SETUP: Final = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('fake', 'scripted', 'fake', 1, 5);
create table t (id int primary key, j jsonb, n numeric, f float8, d timestamptz, a int[]);
"""
DEEP: Final = "(repeat('[', 3000) || repeat(']', 3000))::jsonb"
MEMBERS: Final = "(repeat('{\"a\":', 1500) || '1' || repeat('}', 1500))::jsonb"
DIGITS: Final = "('{\"a\":' || repeat('9', 6000) || '}')::jsonb"
READ: Final = {
    "digits": f"j) values (1, {DIGITS}",
    "exponent": "j) values (1, '{\"a\": 1e131000}'",
    "numeric": "n) values (1, repeat('9', 100000)::numeric",
    "nan": "n, f) values (1, 'NaN', '-Infinity'",
    "infinity": "n, d) values (1, 'Infinity', 'infinity'",
    "before Christ": "d) values (1, '4713-01-01 BC'",
    "dimensions": "a) values (1, array_fill(1, array[2,2,2,2,2,2])",
    "levels": "j) values (1, (repeat('[', 190) || repeat(']', 190))::jsonb",
}
NOT_READ: Final = {
    "deep": f"j) values (1, {DEEP}",
    "deep members": f"j) values (1, {MEMBERS}",
    "a level more": "j) values (1, (repeat('[', 201) || repeat(']', 201))::jsonb",
}
ENDED: Final = "select count(*) = 2 from agent.run where agent_internal.is_final(state)"
STATES: Final = "select state::text, error ->> 'reason' from agent.run order by key"


@pytest.mark.parametrize("backfill", [False, True])
@pytest.mark.parametrize("kind", [*READ, *NOT_READ])
async def test_a_row_ends_no_worker(
    conn: AsyncConnection, dsn: str, kind: str, *, backfill: bool
) -> None:
    """The next row is processed, whether this one is or not."""
    await run_all(conn, SETUP)
    insert = f"insert into t (id, {(READ | NOT_READ)[kind]})"
    if backfill:
        await run_all(conn, insert)
    async with daemon(conn, dsn, {"fake": ScriptedModel(["done"] * 3)}) as d:
        await attach(conn, "name=a" + ", backfill=true" * backfill, "t")
        if not backfill:
            await run_all(conn, insert)
        await run_all(conn, "insert into t (id) values (2)")
        await d.until(ENDED)
    (first, reason), second = await rows(conn, STATES)
    assert second == ("succeeded", None)
    if kind in READ:
        assert (first, reason) == ("succeeded", None)
    else:
        assert first == "failed"
        assert "nested deeper than 200 levels" in str(reason)
        assert "columns" in str(reason)


async def test_a_tool_that_returns_what_cannot_be_read(conn: AsyncConnection, dsn: str) -> None:
    """The model learns it, and the run goes on."""
    await run_all(conn, SETUP)
    await run_all(
        conn,
        f"create function public.deep() returns jsonb language sql as $$ select {DEEP} $$;"
        "create function public.long() returns jsonb language sql as"
        f" $$ select {DIGITS} $$",
    )
    script = ScriptedModel([call("public_deep"), call("public_long"), "done"])
    async with daemon(conn, dsn, {"fake": script}) as d:
        await attach(conn, "name=a, tools=[public.deep, public.long]", "t")
        await run_all(conn, "insert into t (id) values (1)")
        await d.until("select bool_or(agent_internal.is_final(state)) is true from agent.run")
    assert await rows(conn, STATES) == [("succeeded", None)]


async def test_a_workflow_of_one_tenant_ends_no_worker_of_others(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its input comes from who starts it."""
    await run_all(conn, SETUP)
    await run_all(conn, "select agent.create_tenant('acme')::text")
    async with role(conn) as dev:
        await run_all(
            conn,
            f"select agent.grant_developer('{dev}');"
            f"select agent.create_principal('dev', login => '{dev}', tenant => 'acme');"
            "select agent.grant_role('dev', 'developer', tenant => 'acme')",
        )
        async with daemon(conn, dsn, {"fake": ScriptedModel(["done"])}) as d:
            async with session(dsn, user=dev) as own:
                nodes = '[{"name": "a", "kind": "router"}]'
                await value(own, "select agent.create_workflow('w', %s)", nodes)
                start = f"select agent.start_workflow('w', jsonb_build_object('a', {DEEP}))"
                await run_all(own, start)
            await attach(conn, "name=a", "t")
            await run_all(conn, "insert into t (id) values (2)")
            await d.until(ENDED)
        states = sorted(str(state) for state, _ in await rows(conn, STATES))
        assert states == ["failed", "succeeded"]
        await run_all(
            conn,
            "delete from agent.run; delete from agent.workflow;"
            "update agent.principal set login = null",
        )


@pytest.mark.parametrize("text", ["9" * 6000, "-" + "9" * 6000, "1e131000", "1E-5000", "0.1e400"])
def test_a_number_keeps_its_value(text: str) -> None:
    """A float would be infinite or zero, and int() refuses thousands of digits."""
    found = read_json(f'{{"a": {text}}}')["a"]
    assert found == Decimal(text)
    assert read_json(orjson.dumps({"a": found}, exact)) == {"a": found}
