"""What is refused: graphs that are wrong, by name; loops without an end; other tenants."""

import json

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import column, refused, rows, run_all, value
from tests.helpers.people import acting, application, person
from tests.helpers.queue import set_clock
from tests.integration.workflows.test_workflows import (
    REASON,
    SETUP,
    STATE,
    create,
    ended,
    start,
    waiting,
)
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel

ROUTER = {"name": "a", "kind": "router"}
LOOP = '[{"name": "a", "kind": "router"}, {"name": "b", "kind": "router"}]'
AROUND = '[{"from": "a", "to": "b"}, {"from": "b", "to": "a"}]'
TRUE = "state is not null"


@pytest.fixture
async def ready(conn: AsyncConnection) -> AsyncConnection:
    """A database with a model, a table and functions."""
    await run_all(conn, SETUP)
    return conn


@pytest.mark.parametrize(
    ("code", "nodes", "edges"),
    [
        ("no_nodes", [], []),
        ("duplicate_node", [ROUTER, ROUTER], []),
        ("invalid_node", [{"name": "a b", "kind": "router"}], []),
        ("invalid_node", [{"name": "a", "kind": "nothing"}], []),
        ("invalid_node", [{"name": "a", "kind": "router", "promt": "x"}], []),
        ("invalid_node", [{"name": "a", "kind": "tool"}], []),
        ("invalid_node", [{"name": "a", "kind": "human", "expires": "-1 s"}], []),
        ("unknown_model", [{"name": "a", "kind": "model", "model": "no"}], []),
        ("unknown_agent", [{"name": "a", "kind": "model", "agent": "no"}], []),
        ("unknown_tool", [{"name": "a", "kind": "tool", "tool": "no"}], []),
        ("unknown_function", [{"name": "a", "kind": "function", "function": "no"}], []),
        ("unknown_workflow", [{"name": "a", "kind": "subgraph", "workflow": "no"}], []),
        ("dangling_edge", [ROUTER], [{"from": "a", "to": "z"}]),
        ("dangling_edge", [ROUTER], [{"from": "z", "to": "a"}]),
        ("second_start", [ROUTER], [{"from": "__start__", "to": "a"}] * 2),
        ("invalid_condition", [ROUTER], [{"from": "a", "to": "__end__", "condition": "state ->"}]),
        (
            "invalid_condition",
            [ROUTER],
            [{"from": "a", "to": "__end__", "condition": "true) or (true; drop table ticket"}],
        ),
        ("invalid_branch", [{"name": "a", "kind": "parallel", "branches": ["z"]}], []),
    ],
)
async def test_a_graph_that_is_wrong(
    ready: AsyncConnection, code: str, nodes: list[object], edges: list[object]
) -> None:
    """It is refused with the name of the error, and nothing is created."""
    query = "select agent.create_workflow('w', %s, %s)"
    error = await refused(ready, query, json.dumps(nodes), json.dumps(edges), state="WA025")
    assert code in f"{error.diag.message_primary} {error.diag.message_detail}"
    assert await value(ready, "select count(*) from agent.workflow") == 0


async def test_a_circle_without_an_end_is_refused(ready: AsyncConnection) -> None:
    """One with a way out is not."""
    query = "select agent.create_workflow('w', %s, %s)"
    await refused(ready, query, LOOP, AROUND, state="WA025")
    await create(
        ready,
        LOOP,
        f'[{{"from": "a", "to": "b", "condition": "{TRUE}"}}, {{"from": "b", "to": "a"}},'
        ' {"from": "a", "to": "__end__"}]',
    )
    assert await rows(ready, "select * from agent.validate_workflow('w')") == []
    dot = await value(ready, "select agent.workflow_dot('w')")
    assert dot.startswith("digraph")
    assert dot.count("->") >= 3
    assert (
        "[label=]" not in dot
    )  # an edge without a condition has none: Graphviz refuses an empty one
    assert dot.count("[label=") == 1


async def test_a_workflow_ends_after_max_steps(ready: AsyncConnection, dsn: str) -> None:
    """A loop costs what it may, and no more."""
    edges = f'[{{"from": "a", "to": "b", "condition": "{TRUE}"}}, {{"from": "b", "to": "a"}},'
    edges += ' {"from": "a", "to": "__end__"}]'
    await create(ready, LOOP, edges, ", max_steps => 7")
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready)
        assert await ended(d, run) == "failed"
    assert "7" in await value(ready, REASON, run)
    nodes = await column(ready, "select node from agent.workflow_state(%s)", run)
    assert len(nodes) in {7, 8}


async def test_a_workflow_ends_after_its_timeout(ready: AsyncConnection, dsn: str) -> None:
    """Waiting for a person counts."""
    nodes = (
        '[{"name": "ask", "kind": "human", "expires": "10 days"}, {"name": "a", "kind": "router"}]'
    )
    edge = '[{"from": "ask", "to": "a"}]'
    await create(ready, nodes, edge, ", timeout => '1 day'")
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready)
        await waiting(d, run)
        await set_clock(ready, "2 days")
        await value(ready, "select agent.resume_workflow(%s)", run)
        assert await ended(d, run) == "failed"
        assert "timeout" in await value(ready, REASON, run)


async def test_a_workflow_with_unfinished_runs_is_not_dropped(
    ready: AsyncConnection, dsn: str
) -> None:
    """Those that have ended stay, with their states."""
    await create(ready, '[{"name": "ask", "kind": "human"}]')
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready)
        await waiting(d, run)
        await refused(ready, "select agent.drop_workflow('w')", state="WA025")
        await value(ready, "select agent.cancel(%s)", run)
        assert await ended(d, run) == "cancelled"
    await value(ready, "select agent.drop_workflow('w')")
    await refused(ready, "select agent.start_workflow('w')", state="WA025")
    assert await value(ready, STATE, run) == "cancelled"


async def test_a_policy_of_nodes_denies(ready: AsyncConnection, dsn: str) -> None:
    """Before the node has an effect."""
    nodes = '[{"name": "file", "kind": "tool", "tool": "file_ticket", "arguments": {"title": "x"}}]'
    await create(ready, nodes)
    await run_all(
        ready,
        "insert into agent.policy (name, point, action, condition)"
        " values ('quiet', 'node', 'deny', 'true')",
    )
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready)
        assert await ended(d, run) == "failed"
    assert "quiet" in await value(ready, REASON, run)
    assert await value(ready, "select count(*) from ticket") == 0


async def test_an_agent_of_a_node_remembers_as_itself(ready: AsyncConnection, dsn: str) -> None:
    """What it stores belongs to it, and a later run recalls it."""
    await run_all(
        ready,
        "insert into agent.agent (name, model, tools)"
        " values ('clerk', 'fake', '{remember,recall}')",
    )
    await create(
        ready, '[{"name": "clerk", "kind": "model", "agent": "clerk", "prompt": "{{text}}"}]'
    )
    note = call("remember", key="colour", value="blue", kind="semantic")
    model = ScriptedModel([note, "Noted."])
    async with daemon(ready, dsn, {"fake": model}, parts=("worker",)) as d:
        run = await start(ready, '{"text": "I like blue"}')
        assert await ended(d, run) == "succeeded", await value(ready, REASON, run)
    stored = "select agent, key, value #>> '{}' from agent.memory"
    assert await rows(ready, stored) == [("clerk", "colour", "blue")]


async def test_another_tenant_sees_and_starts_nothing(ready: AsyncConnection, dsn: str) -> None:
    """Workflows have a tenant, as runs do."""
    await create(ready, '[{"name": "a", "kind": "router"}]')
    token = await person(ready, "eve", "admin", tenant="other")
    async with application(ready, dsn, "developer", "viewer") as app:
        for what in ("start", "validate", "drop"):
            async with acting(app, token):
                await refused(app, f"select agent.{what}_workflow('w')", state="WA025")
        async with acting(app, token):
            assert await value(app, "select count(*) from agent.workflow") == 0
            assert await value(app, "select count(*) from agent.workflow_version") == 0
