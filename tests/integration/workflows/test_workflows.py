"""Workflows: created whole or not at all, executed by runs, resumed once, continued anywhere."""

import asyncio

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DEADLINE, column, refused, rows, run_all, value
from tests.helpers.queue import set_clock
from walagent.base import faults
from walagent.message import Json, Reply, Request, Text
from walagent.models.script import call, in_turn
from walagent.models.scripted.scripted_model import ScriptedModel

SETUP = """
create table ticket (
    id bigint generated always as identity primary key, title text, urgent boolean
);
create function file_ticket(title text, urgent boolean default false) returns bigint language sql
    as 'insert into ticket (title, urgent) values ($1, $2) returning id';
create function count_words(state jsonb) returns jsonb language sql as $$
    select jsonb_build_object('words', cardinality(string_to_array(state ->> 'text', ' ')))
$$;
create function is_long(state jsonb) returns boolean language sql
    as $$ select (state ->> 'words')::integer > 3 $$;
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('fake', 'scripted', 'fake', 1, 5);
"""
TRIAGE = """
select agent.create_workflow('triage',
    '[{"name": "classify", "kind": "model", "model": "fake",
       "prompt": "Classify {{text}}", "format": "json", "output": "class"},
      {"name": "route", "kind": "router"},
      {"name": "file", "kind": "tool", "tool": "file_ticket",
       "arguments": {"title": "{{text}}", "urgent": true}, "output": "ticket"},
      {"name": "ask", "kind": "human", "type": "approval",
       "prompt": "Close {{ticket}}?", "expires": "1 hour"},
      {"name": "ignore", "kind": "function", "function": "count_words"}]',
    '[{"from": "classify", "to": "route"},
      {"from": "route", "to": "file",
       "condition": "(state #>> ''{class,urgent}'')::boolean", "label": "urgent"},
      {"from": "route", "to": "ignore"},
      {"from": "file", "to": "ask"}]')
"""
START = "select agent.start_workflow('triage', %s)"
NODES = "select node from agent.workflow_state(%s)"
STATE = "select state::text from agent.run where id = %s"
RESULT = "select result::jsonb from agent.run where id = %s"
REASON = "select error ->> 'reason' from agent.run where id = %s"
IS = "select state = %s from agent.run where id = %s"
URGENT = '```json\n{"urgent": true}\n```'


async def create(
    conn: AsyncConnection, nodes: str, edges: str = "[]", rest: str = "", name: str = "w"
) -> Json:
    """Create a workflow; return its version."""
    query = f"select agent.create_workflow(%s, %s, %s{rest})"
    return await value(conn, query, name, nodes, edges)


async def start(conn: AsyncConnection, state: str = "{}", name: str = "w") -> int:
    """Start a run; return its ID."""
    return await value(conn, "select agent.start_workflow(%s, %s)", name, state)


async def ended(d: Daemon, run: int) -> Json:
    """Wait until a run has ended; return its state."""
    await d.until("select agent_internal.is_final(state) from agent.run where id = %s", run)
    return await value(d.conn, STATE, run)


async def waiting(d: Daemon, run: int) -> None:
    """Wait until a run waits for a person."""
    await d.until(IS, "waiting_approval", run)


def words(request: Request) -> str:
    """The prompt of a request."""
    (part,) = request.messages[0].parts
    assert isinstance(part, Text)
    return part.text


@pytest.fixture
async def ready(conn: AsyncConnection) -> AsyncConnection:
    """A database with a model, a table and functions."""
    await run_all(conn, SETUP)
    return conn


async def test_a_model_a_router_a_tool_and_a_person(ready: AsyncConnection, dsn: str) -> None:
    """Each node is executed once; a person resumes the run once."""
    conn = ready
    assert await value(conn, TRIAGE) == 1
    model = ScriptedModel([URGENT])
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        run = await value(conn, START, '{"text": "the house burns"}')
        await waiting(d, run)
        assert "the house burns" in words(model.requests[0])
        assert await column(conn, NODES, run) == ["classify", "route", "file", "ask"]
        assert await rows(conn, "select title, urgent from ticket") == [("the house burns", True)]
        shown = "select node, type, prompt, state from agent.workflow_interrupt"
        assert await rows(conn, shown) == [("ask", "approval", "Close 1?", "pending")]
        await value(conn, "select agent.resume_workflow(%s, '{\"note\": 1}', 'yes')", run)
        await refused(conn, "select agent.resume_workflow(%s)", run, state="WA025")
        assert await ended(d, run) == "succeeded"
    result = await value(conn, RESULT, run)
    assert result["ask"]["decision"] == "approved"
    assert result["ask"]["answer"] == "yes"
    assert (result["note"], result["ticket"], result["class"]) == (1, 1, {"urgent": True})
    assert await value(conn, "select count(*) from ticket") == 1
    assert await value(conn, "select count(*) from agent.approval") == 1


async def test_false_and_null_never_take_an_edge(ready: AsyncConnection, dsn: str) -> None:
    """Only a condition that is true does; without an edge that applies, the run fails."""
    conn = ready
    await value(conn, TRIAGE)
    answers = [in_turn('{"urgent": null}', '{"urgent": false}')]
    async with daemon(conn, dsn, answers, parts=("worker",)) as d:
        for _ in range(2):
            run = await value(conn, START, '{"text": "a b"}')
            assert await ended(d, run) == "succeeded"
            assert await column(conn, NODES, run) == ["classify", "route", "ignore", None]
            assert (await value(conn, RESULT, run))["words"] == 2
        await create(
            conn,
            '[{"name": "a", "kind": "router"}, {"name": "b", "kind": "router"}]',
            '[{"from": "a", "to": "b", "condition": "(state ->> \'x\')::boolean"}]',
        )
        run = await start(conn)
        assert await ended(d, run) == "failed"
        assert await value(conn, REASON, run) == "no edge from node a applies"
    assert await value(conn, "select count(*) from ticket") == 0


ONCE = ["step.recorded", "model.asking", "model.answered", "run.finished", "run.committed"]
OFTEN = ["tool.started", "tool.done", "tool.committed"]


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("point", "skip"),
    [*((point, 0) for point in ONCE), *((point, skip) for point in OFTEN for skip in range(4))],
)
async def test_a_worker_that_dies_anywhere_executes_each_node_once(
    ready: AsyncConnection, dsn: str, point: str, skip: int
) -> None:
    """Between two nodes and within one: the next worker goes on."""
    conn = ready
    await value(conn, TRIAGE)
    async with daemon(conn, dsn, {"fake": ScriptedModel([URGENT])}, parts=()) as d:
        run = await value(conn, START, '{"text": "fire"}')
        with faults.armed(point, skip=skip):
            await d.start_worker()
            if point.startswith("run"):
                await waiting(d, run)
                await value(conn, "select agent.resume_workflow(%s)", run)
            await d.dies("worker")
        await d.expire_leases()
        await d.start_worker()
        if not point.startswith("run"):
            await waiting(d, run)
            await value(conn, "select agent.resume_workflow(%s)", run)
        assert await ended(d, run) == "succeeded"
    assert await value(conn, "select count(*) from ticket") == 1
    assert await value(conn, "select count(*) from agent.approval") == 1
    assert await column(conn, NODES, run) == ["classify", "route", "file", "ask", None]


async def test_branches_are_executed_and_merged(ready: AsyncConnection, dsn: str) -> None:
    """The models of a parallel node are asked at once; each tool is called once."""
    conn = ready
    await create(
        conn,
        '[{"name": "all", "kind": "parallel", "branches": ["good", "bad", "file", "count"]},'
        ' {"name": "good", "kind": "model", "model": "fake", "prompt": "Good of {{text}}"},'
        ' {"name": "bad", "kind": "model", "model": "fake", "prompt": "Bad of {{text}}"},'
        ' {"name": "file", "kind": "tool", "tool": "file_ticket",'
        ' "arguments": {"title": "{{text}}"}},'
        ' {"name": "count", "kind": "function", "function": "count_words"},'
        ' {"name": "last", "kind": "router"}]',
        '[{"from": "all", "to": "last"}]',
    )

    both = asyncio.Barrier(2)

    class Both(ScriptedModel):
        async def complete(self, request: Request) -> Reply:
            async with asyncio.timeout(DEADLINE):
                await both.wait()
            return await super().complete(request)

    async with daemon(conn, dsn, {"fake": Both(["an opinion"])}, parts=("worker",)) as d:
        run = await start(conn, '{"text": "one two"}')
        assert await ended(d, run) == "succeeded"
    assert await value(conn, RESULT, run) == {
        "text": "one two",
        "good": "an opinion",
        "bad": "an opinion",
        "file": 1,
        "words": 2,
    }


async def test_a_subgraph_has_a_state_of_its_own(ready: AsyncConnection, dsn: str) -> None:
    """It begins with its arguments, and its last state is the result of its node."""
    conn = ready
    await create(
        conn, '[{"name": "count", "kind": "function", "function": "count_words"}]', name="i"
    )
    await create(
        conn,
        '[{"name": "sub", "kind": "subgraph", "workflow": "i",'
        ' "arguments": {"text": "{{a.b}}"}},'
        ' {"name": "end", "kind": "router"}]',
        '[{"from": "sub", "to": "end", "condition": "state #>> \'{sub,words}\' = \'3\'"}]',
        name="o",
    )
    await create(conn, '[{"name": "s", "kind": "subgraph", "workflow": "o"}]', name="t")
    async with daemon(conn, dsn, parts=("worker",)) as d:
        run = await start(conn, '{"a": {"b": "x y z"}}', "t")
        assert await ended(d, run) == "succeeded"
        result = await value(conn, RESULT, run)
        assert result["s"]["sub"] == {"text": "x y z", "words": 3}
        depths = "select node, depth from agent.workflow_state(%s)"
        assert await rows(conn, depths, run) == [
            ("s", 0),
            ("sub", 1),
            ("count", 2),
            ("end", 1),
            (None, 0),
        ]
    await refused(
        conn,
        "select agent.create_workflow('i', %s)",
        '[{"name": "x", "kind": "subgraph", "workflow": "t"}]',
        state="WA025",
    )


@pytest.mark.slow
async def test_an_agent_of_a_node_uses_its_tools(ready: AsyncConnection, dsn: str) -> None:
    """A node of kind model is the whole loop of its agent, until it has answered."""
    conn = ready
    await run_all(
        conn,
        "insert into agent.agent (name, model, system_prompt, tools)"
        " values ('clerk', 'fake', 'You are a clerk.', '{file_ticket}')",
    )
    await create(conn, '[{"name": "clerk", "kind": "model", "agent": "clerk", "prompt": "Do it"}]')
    model = ScriptedModel([call("file_ticket", title="t"), "Filed."])
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        run = await start(conn)
        assert await ended(d, run) == "succeeded"
    assert await value(conn, RESULT, run) == {"clerk": "Filed."}
    assert await value(conn, "select count(*) from ticket") == 1
    assert model.requests[0].system.startswith("You are a clerk.")


async def test_interrupts_before_and_after_a_node_do_not_fire_again(
    ready: AsyncConnection, dsn: str
) -> None:
    """Each is resumed once; what the person changes is in the state."""
    conn = ready
    await create(
        conn,
        '[{"name": "file", "kind": "tool", "tool": "file_ticket", "arguments": {"title": "{{t}}"},'
        ' "interrupt_before": true, "interrupt_after": true, "type": "review"}]',
    )
    async with daemon(conn, dsn, parts=("worker",)) as d:
        run = await start(conn, '{"t": "old"}')
        await waiting(d, run)
        assert await value(conn, "select count(*) from ticket") == 0
        await value(conn, 'select agent.resume_workflow(%s, \'{"t": "new"}\')', run)
        await d.until("select count(*) = 2 from agent.workflow_interrupt")
        await waiting(d, run)
        await value(conn, "select agent.resume_workflow(%s, '{\"u\": 1}')", run)
        assert await ended(d, run) == "succeeded"
        assert await column(conn, "select title from ticket") == ["new"]
        assert await value(conn, RESULT, run) == {"t": "new", "u": 1, "file": 1}
        rejected = await start(conn, '{"t": "old"}')
        await waiting(d, rejected)
        await value(
            conn,
            "select agent.reject(id, 'no') from agent.workflow_interrupt where state = 'pending'",
        )
        assert await ended(d, rejected) == "failed"
        assert await value(conn, REASON, rejected) == "node file is rejected before it: no"
    assert await value(conn, "select count(*) from ticket") == 1


async def test_after_a_rejection_only_an_edge_with_a_condition_is_taken(
    ready: AsyncConnection, dsn: str
) -> None:
    """A rejection, or nobody's decision, is never an approval."""
    conn = ready
    nodes = (
        '[{"name": "ask", "kind": "human"}, {"name": "file", "kind": "tool", "tool": "file_ticket",'
        ' "arguments": {"title": "x"}}, {"name": "sorry", "kind": "router"}]'
    )
    edge = '{"from": "ask", "to": "file"}'
    condition = "state #>> '{ask,decision}' <> 'approved'"
    no = f'{{"from": "ask", "to": "sorry", "condition": "{condition}"}}'
    await create(conn, nodes, f"[{edge}]", ", timeout => '30 days'", name="plain")
    await create(conn, nodes, f"[{edge}, {no}]", name="polite")
    pending = "from agent.workflow_interrupt where state = 'pending'"
    async with daemon(conn, dsn, parts=("worker",)) as d:
        for name, end in (("plain", "failed"), ("polite", "succeeded")):
            run = await start(conn, name=name)
            await waiting(d, run)
            await value(conn, f"select agent.reject(id, 'no') {pending}")
            assert await ended(d, run) == end
        run = await start(conn, name="plain")
        await waiting(d, run)
        await set_clock(conn, "8 days")
        await run_all(conn, "select agent_internal.tick()")
        assert await ended(d, run) == "failed"
        assert await value(conn, REASON, run) == "node ask is expired"
    assert await value(conn, "select count(*) from ticket") == 0


async def test_what_a_workflow_writes_names_its_run(ready: AsyncConnection, dsn: str) -> None:
    """An attachment acts on it at depth 1: chains through workflows end, too."""
    conn = ready
    await value(conn, TRIAGE)
    await value(conn, "select agent.attach('ticket', 'model=fake')")
    async with daemon(conn, dsn, {"fake": ScriptedModel([URGENT])}) as d:
        run = await value(conn, START, '{"text": "the house burns"}')
        await d.until("select count(*) = 1 from agent.run where kind = 'agent'")
        made = "select depth, cause_run from agent.run where kind = 'agent'"
        assert await rows(conn, made) == [(1, run)]
        await waiting(d, run)
