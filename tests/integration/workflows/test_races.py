"""Workflows when two act at once, when a part fails, and when somebody has no right."""

import asyncio

import pytest
from psycopg import AsyncConnection, DatabaseError

from tests.helpers.daemon import daemon
from tests.helpers.database import column, refused, rows, run_all, session, value
from tests.helpers.people import acting, application, person
from tests.integration.workflows.test_workflows import (
    REASON,
    RESULT,
    SETUP,
    STATE,
    create,
    ended,
    start,
    waiting,
)
from walagent.base import faults
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel

FAILS = """
create function is_allowed(title text) returns bigint language plpgsql as $$
begin
    if exists (select from ticket t where t.title = 'open') then
        return 1;
    end if;
    raise exception 'not allowed yet';
end $$;
"""
TWO_FILES = (
    '[{"name": "all", "kind": "parallel", "branches": ["opinion", "one", "two"]},'
    ' {"name": "opinion", "kind": "model", "model": "fake", "prompt": "Of {{text}}"},'
    ' {"name": "one", "kind": "tool", "tool": "file_ticket", "arguments": {"title": "one"}},'
    ' {"name": "two", "kind": "tool", "tool": "file_ticket", "arguments": {"title": "two"}}]'
)
TITLES = "select title from ticket order by id"
POLICY = (
    "insert into agent.policy (name, point, action, condition, expression, message)"
    " values ('p', 'node', '{}', 'call ->> ''node'' = ''file''', {}, 'look at it')"
)
FILE = '[{"name": "file", "kind": "tool", "tool": "file_ticket", "arguments": {"title": "{{t}}"}}]'


@pytest.fixture
async def ready(conn: AsyncConnection) -> AsyncConnection:
    """A database with a model, a table and functions."""
    await run_all(conn, SETUP)
    return conn


async def test_of_two_who_resume_at_once_one_does(ready: AsyncConnection, dsn: str) -> None:
    """The answer of the other changes nothing."""
    await create(ready, '[{"name": "ask", "kind": "human"}]')
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready)
        await waiting(d, run)

        async def resume(answer: str) -> str:
            async with session(dsn) as own:
                try:
                    await value(own, "select agent.resume_workflow(%s, '{}', %s)", run, answer)
                except DatabaseError as error:
                    return str(error.sqlstate)
                return answer

        ends = await asyncio.gather(*map(resume, "abcdefgh"))
        assert await ended(d, run) == "succeeded"
    (answer,) = set(ends) - {"WA005", "WA006", "WA025"}
    assert (ends.count(answer), (await value(ready, RESULT, run))["ask"]["answer"]) == (1, answer)


async def test_a_branch_that_fails_is_named_and_the_others_are_not_repeated(
    ready: AsyncConnection, dsn: str
) -> None:
    """The run fails with the name of the branch; a retry calls this branch alone."""
    await run_all(ready, FAILS)
    await create(
        ready,
        '[{"name": "all", "kind": "parallel", "branches": ["opinion", "one", "bad"]},'
        ' {"name": "opinion", "kind": "model", "model": "fake", "prompt": "Of {{text}}"},'
        ' {"name": "one", "kind": "tool", "tool": "file_ticket", "arguments": {"title": "one"}},'
        ' {"name": "bad", "kind": "tool", "tool": "is_allowed", "arguments": {"title": "x"}}]',
    )
    async with daemon(
        ready, dsn, {"fake": ScriptedModel(["fine", "fine"])}, parts=("worker",)
    ) as d:
        run = await start(ready)
        assert await ended(d, run) == "failed"
        assert "node bad failed: not allowed yet" in await value(ready, REASON, run)
        await run_all(ready, "insert into ticket (title) values ('open')")
        await value(ready, "select agent.retry(%s)", run)
        assert await ended(d, run) == "succeeded", await value(ready, REASON, run)
    assert (await value(ready, RESULT, run))["bad"] == 1
    assert await column(ready, TITLES) == ["one", "open"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("point", "skip"),
    [
        ("model.answered", 0),
        *((point, skip) for point in ("tool.started", "tool.committed") for skip in (1, 2)),
    ],
)
async def test_a_worker_that_dies_between_branches_repeats_none(
    ready: AsyncConnection, dsn: str, point: str, skip: int
) -> None:
    """Each branch has its effect once; an answer that was recorded is not asked for again."""
    await create(ready, TWO_FILES)
    model = ScriptedModel(["fine"] * 2)
    async with daemon(ready, dsn, {"fake": model}, parts=()) as d:
        run = await start(ready)
        with faults.armed(point, skip=skip):
            await d.start_worker()
            await d.dies("worker")
        await d.expire_leases()
        await d.start_worker()
        assert await ended(d, run) == "succeeded"
    assert await column(ready, TITLES) == ["one", "two"]
    assert len(model.requests) == (2 if point == "model.answered" else 1)


async def test_a_policy_of_nodes_changes_the_state(ready: AsyncConnection, dsn: str) -> None:
    """Before the node reads it."""
    await create(ready, FILE)
    changed = "'jsonb_set(call, ''{state,t}'', ''\"other\"'')'"
    await run_all(ready, POLICY.format("transform", changed))
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready, '{"t": "mine"}')
        assert await ended(d, run) == "succeeded", await value(ready, REASON, run)
    assert await column(ready, TITLES) == ["other"]


@pytest.mark.parametrize("action", ["require", "escalate"])
async def test_a_policy_of_nodes_asks_a_person(
    ready: AsyncConnection, dsn: str, action: str
) -> None:
    """Nothing has an effect before the decision, and a rejection ends the run."""
    await create(ready, FILE)
    await run_all(ready, POLICY.format(action, "null"))
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready, '{"t": "mine"}')
        await waiting(d, run)
        assert await column(ready, TITLES) == []
        shown = "select node, type, prompt from agent.workflow_interrupt"
        assert await rows(ready, shown) == [("file", "escalation", "look at it")]
        await value(ready, "select agent.resume_workflow(%s)", run)
        assert await ended(d, run) == "succeeded"
        other = await start(ready, '{"t": "second"}')
        await waiting(d, other)
        pending = "select id from agent.approval where run_id = %s"
        await value(ready, "select agent.reject(%s, 'no')", await value(ready, pending, other))
        assert await ended(d, other) == "failed"
    assert await column(ready, TITLES) == ["mine"]


async def test_an_agent_of_a_node_asks_a_person_and_recalls(
    ready: AsyncConnection, dsn: str
) -> None:
    """The answer reaches the model, and what it recalls is its own."""
    await run_all(
        ready,
        "insert into agent.agent (name, model, tools)"
        " values ('clerk', 'fake', '{ask_human,remember,recall}')",
    )
    await create(ready, '[{"name": "clerk", "kind": "model", "agent": "clerk", "prompt": "Go"}]')
    script = [
        call("ask_human", question="Which color?"),
        call("remember", key="color", value="blue"),
        call("recall", query="color"),
        "Blue.",
    ]
    model = ScriptedModel(script)
    async with daemon(ready, dsn, {"fake": model}, parts=("worker",)) as d:
        run = await start(ready)
        await waiting(d, run)
        question = await value(ready, "select id from agent.approval where run_id = %s", run)
        await refused(ready, "select agent.answer(%s, ' ')", question, state="WA005")
        await value(ready, "select agent.answer(%s, 'sky blue')", question)
        assert await ended(d, run) == "succeeded", await value(ready, REASON, run)
    results = "select content ->> 'content' from agent.step where run_id = %s and kind = 'result'"
    said = await column(ready, f"{results} order by seq", run)
    assert any("sky blue" in each for each in said)
    assert any("remembered as" in each for each in said)
    assert any("blue" in each and "color" in each and "trust" in each for each in said)


async def test_a_fork_begins_after_what_was_done(ready: AsyncConnection, dsn: str) -> None:
    """What came before its checkpoint has no second effect; the first run stays as it is."""
    await create(
        ready,
        '[{"name": "file", "kind": "tool", "tool": "file_ticket", "arguments": {"title": "a"}},'
        ' {"name": "count", "kind": "function", "function": "count_words"}]',
        '[{"from": "file", "to": "count"}]',
    )
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready, '{"text": "one two"}')
        assert await ended(d, run) == "succeeded"
        before = await rows(ready, "select number, node, state from agent.workflow_state(%s)", run)
        # A later version does not change what the fork executes.
        await create(ready, '[{"name": "count", "kind": "router"}]')
        fork = "select agent.fork_workflow(%s, %s, %s)"
        other = await value(ready, fork, run, 2, '{"text": "one two three"}')
        assert await ended(d, other) == "succeeded"
        for checkpoint in (3, 9, None):
            await refused(ready, fork, run, checkpoint, "{}", state="WA025")
        await refused(ready, fork, run, 2, "[]", state="WA025")
    assert (await value(ready, RESULT, other))["words"] == 3
    assert (await value(ready, RESULT, run))["words"] == 2
    assert await column(ready, TITLES) == ["a"]
    after = await rows(ready, "select number, node, state from agent.workflow_state(%s)", run)
    assert after == before


async def test_without_the_role_nothing_is_done(ready: AsyncConnection, dsn: str) -> None:
    """A viewer changes nothing; for other tenants, nothing exists."""
    await create(ready, '[{"name": "ask", "kind": "human"}]')
    viewer = await person(ready, "vera", "viewer")
    stranger = await person(ready, "eve", "admin", tenant="other")
    async with daemon(ready, dsn, parts=("worker",)) as d:
        run = await start(ready)
        await waiting(d, run)
        async with application(ready, dsn, "developer", "viewer", "approver") as app:
            attempts = [
                'agent.create_workflow(\'w\', \'[{"name": "a", "kind": "router"}]\')',
                "agent.start_workflow('w')",
                f"agent.fork_workflow({run}, 1)",
                "agent.drop_workflow('w')",
                f"agent.resume_workflow({run})",
            ]
            for attempt in attempts:
                async with acting(app, viewer):
                    await refused(app, f"select {attempt}", state="42501")
            for attempt in attempts[1:]:
                async with acting(app, stranger):
                    await refused(app, f"select {attempt}", state="WA025")
            async with acting(app, stranger):
                shown = "select * from agent.workflow_state(%s)"
                assert await rows(app, shown, run) == []
        assert await value(ready, STATE, run) == "waiting_approval"
