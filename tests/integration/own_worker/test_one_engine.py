"""A worker of one's own has the limits, prices, checks and statements of walagent's own workers."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.database import run_all, value
from tests.integration.own_worker.rig import desk
from walagent.deciders.arguments import what_is_wrong
from walagent.deciders.loop import next_move
from walagent.domain.agent_spec import AgentSpec, Target
from walagent.domain.run import Step, StepKind
from walagent.domain.tool_spec import Tool
from walagent.message import Json, Usage
from walagent.models.cost import cost_of
from walagent.moves import End
from walagent.store.attachments import load_registry
from walagent.tools.statements import statement_of

BANDS = """[
    {"above": 10, "input_price": 2, "cached_input_price": 1, "output_price": 7},
    {"above": 1000, "input_price": 4, "output_price": 9}]"""
PRICES = [
    (None, None, None, None, "[]"),
    (3, None, None, None, "[]"),
    (3, None, None, 15, "[]"),
    (3, "0.3", "3.75", 15, "[]"),
    (0, None, None, 0, "[]"),
    (0, 1, None, 0, "[]"),
    (1, "0.1", 2, 5, '[{"above": 1000, "input_price": 2, "output_price": 7}]'),
    (1, 1, 1, 5, BANDS),
]
TOKENS = (0, 7, 2000)


@pytest.mark.parametrize("prices", PRICES)
async def test_a_reply_costs_what_it_costs_others(
    conn: AsyncConnection, prices: tuple[object, ...]
) -> None:
    """Of every mix of tokens, also where a price is unknown."""
    await value(
        conn,
        "insert into agent.model (name, provider, model_id, input_price, cached_input_price,"
        " cache_write_price, output_price, price_bands)"
        " values ('priced', 'scripted', 'p', %s, %s, %s, %s, %s::jsonb) returning 1",
        *prices,
    )
    spec = (await load_registry(conn))["priced"]
    for usage in _usages():
        found: Decimal | None = await value(
            conn,
            "select agent_internal.cost_of_usage('default', 'priced', %s::integer[])",
            [
                usage.input_tokens,
                usage.cached_tokens,
                usage.cache_write_tokens,
                usage.output_tokens,
            ],
        )
        wanted = cost_of(usage, spec)
        assert (found is None) == (wanted is None), usage
        assert found is None or wanted is None or abs(found - wanted) < Decimal("1e-12"), usage


def _usages() -> Iterator[Usage]:
    for given in TOKENS:
        for cached in TOKENS:
            for written in TOKENS:
                for answered in TOKENS:
                    yield Usage(given, answered, cached, written)


@pytest.mark.slow
async def test_a_turn_reaches_its_limits_as_others_do(conn: AsyncConnection, dsn: str) -> None:
    """With the same words, after any history."""
    reached = set[str]()
    async with desk(conn, dsn) as d:
        turn = await d.start()
        pinned = await value(
            conn,
            "select agent_internal.turn_definition(r) from agent.run r where id = %s",
            turn,
        )
        for seed in range(200):
            rng = random.Random(seed)
            given = {
                **pinned,
                "max_steps": rng.randint(2, 6),
                "max_tokens": rng.choice([None, rng.randint(1, 400)]),
                "max_cost": rng.choice([None, 0.25, 0.5]),
            }
            steps = [*_history(rng)]
            async with conn.transaction(force_rollback=True):
                for step in steps:
                    await _insert(conn, turn, step)
                found = await value(
                    conn,
                    "select agent_internal.turn_limit(r, %s) from agent.run r where r.id = %s",
                    Jsonb(given), turn,
                )  # fmt: skip
            move = next_move(steps, AgentSpec.from_json(given), lambda _tool, _arguments: None)
            assert found == (move.reason if isinstance(move, End) else None), (seed, steps)
            reached.add(re.sub(r"[0-9.]+", "", found or ""))
    assert len(reached) == len({"none", "steps", "circles", "tokens", "cost"})


async def _insert(conn: AsyncConnection, turn: int, step: Step) -> None:
    await value(
        conn,
        "select agent_internal.insert_step(%s, null, %s, %s, %s, %s::numeric)",
        turn,
        step.kind,
        Jsonb(step.content),
        [step.tokens, 0, 0, 0] if step.kind == StepKind.REPLY else None,
        step.cost,
    )


def _history(rng: random.Random) -> Iterator[Step]:
    """Replies that each make one call, and its result; now and then a person lets it go on."""
    seq = 1
    for number in range(rng.randint(0, 6)):
        given = {"query": rng.choice("ab")}
        parts = [{"call": f"c{number}", "name": "look_up", "arguments": given}]
        reply: dict[str, Json] = {"parts": parts, "stop": "tool", "model": ""}
        yield Step(seq, StepKind.REPLY, reply, rng.randint(0, 120), rng.choice([None, 0.125]))
        about = {"call_id": f"c{number}", "name": "look_up", "is_error": False}
        yield Step(seq + 1, StepKind.RESULT, {**about, "content": rng.choice("xy")}, 0, None)
        seq += 2
        if rng.random() < 0.2:
            yield Step(seq, StepKind.NOTE, {"retry": "again"}, 0, None)
            seq += 1


TOOLS = """
create function plain() returns text language sql as $$ select 'x' $$;
create function "Odd ""Name"(a integer, "b c" text[] default '{}') returns setof note
    language sql as $$ select n from note n $$;
insert into agent.tool (name, kind, target) values
    ('plain', 'sql', 'plain'), ('odd', 'sql', '"Odd ""Name"(integer, text[])');
update agent.agent set tools = tools || '{plain,odd}';
"""
NO_TABLE = Target(0, "", "", ())
GIVEN: list[dict[str, Json]] = [
    {},
    {"a": 1},
    {"a": "1", "b c": ["x"]},
    {"b c": None},
    {"c": 1},
    {"query": 1},
]


async def test_a_sql_tool_is_called_with_the_same_statement(
    conn: AsyncConnection, dsn: str
) -> None:
    """Whatever arguments the model gave."""
    async with desk(conn, dsn):
        await run_all(conn, TOOLS)
        for raw in await _tools(conn):
            tool = Tool.from_json(raw)
            for given in GIVEN:
                if tool.kind == "sql":
                    found = await value(
                        conn, "select agent_internal.tool_statement(%s, %s)",
                        Jsonb(raw), Jsonb(given),
                    )  # fmt: skip
                    assert found == _unquoted(statement_of(tool, NO_TABLE, given, {})[0])


def _unquoted(statement: str) -> str:
    """Leave the quotes of names out that need none."""
    return re.sub('"([a-z_]+)"', r"\1", statement)


async def test_arguments_that_are_refused_are_refused_by_others(
    conn: AsyncConnection, dsn: str
) -> None:
    """PostgreSQL reads the types; names that are missing or unknown are told before."""
    refused = 0
    async with desk(conn, dsn):
        await run_all(conn, TOOLS)
        for raw in await _tools(conn):
            tool = Tool.from_json(raw)
            for given in GIVEN:
                found = await value(
                    conn, "select agent_internal.wrong_arguments(%s, %s)",
                    Jsonb(raw), Jsonb(given),
                )  # fmt: skip
                if found is not None:
                    refused += 1
                    assert what_is_wrong(tool, given), (tool.name, given)
    assert refused > len(GIVEN)


async def _tools(conn: AsyncConnection) -> list[dict[str, Json]]:
    return await value(
        conn,
        "select definition -> 'tools' from agent.attachment where name = 'helper'",
    )
