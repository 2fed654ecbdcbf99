"""A kind of run that the engine does not know: it needs a decider, an actor and rows."""

import asyncio
from collections.abc import Sequence

from psycopg import AsyncConnection

from tests.helpers.build import claim
from tests.helpers.database import rows, run_all, until
from walagent.agent.models.scripted.model import ScriptedModel
from walagent.agent_spec import AgentSpec, Authority
from walagent.errors import DatabaseLostError
from walagent.message import ModelSpec, Reply, Request, Stop, ToolCall
from walagent.moves import (
    Act,
    Call,
    Claim,
    Effect,
    Kind,
    Move,
    Prompt,
    RunLog,
    RunSpec,
    Step,
    StepKind,
    Tool,
    succeed,
)
from walagent.runs.resources import Resources
from walagent.runs.worker import Worker, WorkerSettings
from walagent.store.connections import open_pool
from walagent.store.listings import show_run
from walagent.testing import DECIDER_CHECKS, DeciderCase

ECHO = Tool("echo", "builtin", "echo", "", {"type": "object"}, Effect.READ)
QUEUED = """
with queue as (insert into agent_internal.queue (kind) values ('echo') returning id)
insert into agent.run (kind, reason, queue_id, change, key, max_attempts)
select 'echo', 'manual', id, '{"op": "insert", "schema": "s", "table": "t", "new": {"id": 7}}',
       '7', 2
  from queue;
notify walagent_runs;
"""


class EchoDecider:
    """One call, whose result is the run's."""

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Call, then end."""
        results = [step for step in steps if step.kind is StepKind.RESULT]
        if results:
            return succeed(results[0].content["content"])
        return Act((Call(ToolCall("echo", "echo", run.claim.change["new"]), ECHO),))

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Ask no model."""
        raise NotImplementedError


class EchoActor:
    """Returns the arguments; the first attempt fails."""

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Record the row's id."""
        if run.claim.attempt == 1:
            raise DatabaseLostError("the connection was lost")
        content = {"call_id": call.call.id, "name": "echo", "is_error": False}
        content["content"] = f"row {(call.call.arguments or {})['id']}"
        await log.record(StepKind.RESULT, content)


async def specified(held: Claim) -> RunSpec:
    """A run of this kind has no agent and no table."""
    return RunSpec(held, AgentSpec("", ""), Authority(""), source="echo")


async def test_a_run_of_another_kind_is_executed_and_shown(conn: AsyncConnection, dsn: str) -> None:
    """Claimed, retried after an error, ended, and shown with its steps; every invariant holds."""
    kind = Kind(EchoDecider(), EchoActor(), specified)
    await run_all(conn, QUEUED)
    async with open_pool(dsn, size=2, application="test") as pool:
        model = ScriptedModel([Reply((), Stop.END)])
        worker = Worker(
            WorkerSettings("w", poll=0.1), Resources(pool, lambda _: model, {"echo": kind})
        )
        task = asyncio.create_task(worker.run())
        await until(conn, "select state = 'waiting_retry' from agent.run")
        await run_all(conn, "update agent.run set next_attempt_at = now()")
        await until(conn, "select agent_internal.is_final(state) from agent.run")
        worker.stop()
        await task
    ended = await rows(conn, "select state::text, result, attempt from agent.run")
    assert ended == [("succeeded", "row 7", 2)]
    assert await rows(conn, "select * from agent.broken_invariant") == []
    shown = await show_run(conn, 1)
    assert shown is not None
    assert [step["content"]["name"] for step in shown["steps"]] == ["echo"]


async def test_a_decider_without_a_model_keeps_the_contract() -> None:
    """Its run is that of the test above."""
    run = await specified(claim(kind="echo"))
    result = {"call_id": "echo", "name": "echo", "is_error": False, "content": "row 1"}
    for check in DECIDER_CHECKS:
        await check(DeciderCase(EchoDecider, run, [Step(0, StepKind.RESULT, result)]))
