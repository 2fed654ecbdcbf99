"""The worker: models that misbehave, crashes, cancellations, limits, people, and stopping."""

import asyncio
import gc
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DEADLINE, DESK, attach, column, rows, run_all, session, value
from tests.helpers.queue import add_runs, one_run, set_clock
from walagent.base import faults
from walagent.domain.tool_spec import Effect
from walagent.message import ModelSpec, Reply, Request, Stop, Text, ToolCall, Usage
from walagent.models.script import Answer, Fault, call, in_turn
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.executor import Executor
from walagent.runs.step_log import StepLog
from walagent.runs.worker import Worker, WorkerSettings
from walagent.store import claiming
from walagent.store.status import count_runs, oldest_queued
from walagent.tools.python import Function, PythonTool, ToolContext, tool

STATE = "select state::text, result, error from agent.run order by id"
SPEC = "tools=[refund_user], writes=[status], bind=[ticket_id=id]"
KINDS = "select kind from agent.step order by run_id, seq"
TICKET = "insert into support_tickets (id, issue) values (1, 'x')"
CHANGE = {"op": "insert", "new": {"id": 1, "issue": "x"}}


def declared(function: Function) -> PythonTool:
    """What a declaration has made of a function."""
    return function.__walagent_tool__  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess]


async def one(conn: AsyncConnection, spec: str = SPEC, count: int = 1) -> int:
    """Queue runs of one attachment; give the first one's id."""
    if not await value(conn, "select to_regclass('support_tickets') is not null"):
        await run_all(conn, DESK + TICKET)
    attached = await attach(conn, spec)
    ordering_keys = [str(n) for n in range(count)]
    (first, *_) = await add_runs(conn, attached, *ordering_keys, change=CHANGE)
    await run_all(conn, "notify walagent_runs")
    return first


async def worked(d: Daemon, state: str = "") -> tuple[Any, ...]:
    """Wait until the one run has ended, or is in *state*; give state, result and error."""
    wanted = f"state = '{state}'" if state else "agent_internal.is_final(state)"
    await d.until(f"select bool_and({wanted}) and count(*) > 0 from agent.run")
    return (await rows(d.conn, STATE))[0]


async def reason(d: Daemon, state: str = "") -> tuple[str, str]:
    """State and reason of the one run."""
    found = await worked(d, state)
    return found[0], found[2]["reason"]


# Asking.


OPEN = """
select state, query from pg_stat_activity
 where application_name = 'walagent test' and xact_start is not null
"""
PATIENCE = 2.0  # seconds


async def test_no_transaction_is_open_while_a_model_is_asked(
    conn: AsyncConnection, dsn: str
) -> None:
    """Promise 3: neither a transaction nor a lock, for as long as the model thinks."""
    held: list[Any] = []

    def look(_request: Request) -> Answer:
        with psycopg.connect(dsn, autocommit=True) as other:
            # Statements of the process beside its runs end meanwhile; a transaction does not, as
            # the loop of the process stands still.
            end = time.monotonic() + PATIENCE
            while (busy := other.execute(OPEN).fetchall()) and time.monotonic() < end:
                time.sleep(0.01)
            held.extend(busy)
            other.execute("select id from agent.run for update nowait")
        return call("refund_user", amount=7)

    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, [look, "ok"], parts=("worker",)) as d:
        await one(conn)
        assert await worked(d) == ("succeeded", "ok", None)
    assert held == []


async def test_a_run_leaves_nothing_behind(conn: AsyncConnection, dsn: str) -> None:
    """Nothing of it waits for a collection of garbage: many runs a second would be many MB."""
    answers = [call("refund_user", amount=7), "ok"]
    async with daemon(conn, dsn, answers, parts=("worker",)) as d:
        gc.collect()
        before = _of_runs()  # what other tests of this process still refer to
        gc.disable()
        try:
            await one(conn)
            assert await worked(d) == ("succeeded", "ok", None)
            await d.until("select agent_internal.now() > finished_at from agent.run")
            left = _of_runs() - before
        finally:
            gc.enable()
        assert not left


def _of_runs() -> set[int]:
    """The identities of objects that a run has."""
    return {id(each) for each in gc.get_objects() if isinstance(each, (Executor, StepLog))}


async def test_a_reply_is_stored_before_anything_acts_on_it(
    conn: AsyncConnection, dsn: str
) -> None:
    """A worker that dies after it leaves a reply, and the next one does not ask again."""
    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, [call("refund_user"), "ok"], parts=("worker",)) as d:
        with faults.armed("step.recorded"):
            await one(conn)
            await d.dies("worker")
        assert await column(conn, KINDS) == ["reply"]
        assert await value(conn, "select count(*) from refund") == 0
        await d.expire_leases()
        await d.start_worker()
        assert await worked(d) == ("succeeded", "ok", None)
    assert await column(conn, KINDS) == ["reply", "result", "reply"]
    model = "select distinct content ->> 'registered' from agent.step where kind = 'reply'"
    assert await column(conn, model) == [ScriptedModel([]).spec.name]


POINTS = (
    "run.claimed",
    "model.asking",
    "model.answered",
    "step.recorded",
    "tool.started",
    "tool.done",
    "tool.recorded",
    "tool.committed",
    "run.finished",
    "run.committed",
)


@tool()
async def pay(ctx: ToolContext) -> str:
    """Pay money back."""
    assert ctx.conn is not None
    await ctx.conn.execute("insert into refund values (1, 1)")
    return "paid"


@pytest.mark.parametrize("kind", ["sql", "python"])
async def test_a_crash_anywhere_costs_no_effect_and_makes_none_twice(
    conn: AsyncConnection, dsn: str, kind: str
) -> None:
    """At each named point a worker dies; the next one ends the run with one refund."""
    await run_all(conn, DESK + TICKET)
    name, spec = ("refund_user", SPEC) if kind == "sql" else ("pay", "tools=[pay], writes=[status]")
    script = [call(name), call("update_row", status="closed"), "ok"]
    skipped = {"tool.done", "tool.recorded"} if kind == "sql" else set[str]()
    async with daemon(conn, dsn, script, python=[declared(pay)], parts=("worker",)) as d:
        for at, point in enumerate(POINTS):
            if point in skipped:
                continue
            with faults.armed(point):
                await one(conn, f"name=a{at}, {spec}")
                await d.dies("worker")
            await d.expire_leases()
            await d.start_worker()
            assert (await worked(d))[:2] == ("succeeded", "ok")
            assert await value(conn, "select count(*) from refund") == 1, point
            assert await rows(conn, "select * from agent.broken_invariant") == []
            await run_all(conn, "delete from refund; delete from agent.run")


# Models that misbehave.


async def test_a_provider_that_fails_is_asked_again_later(conn: AsyncConnection, dsn: str) -> None:
    """With a wait, and an attempt the more."""
    await run_all(conn, DESK + TICKET)
    script = [in_turn(Fault(500), Fault(drop=True), "ok")]
    async with daemon(conn, dsn, script, parts=("worker",)) as d:
        await one(conn)
        for attempt in (1, 2):
            state, _, error = await worked(d, "waiting_retry")
            assert state == "waiting_retry"
            assert error["reason"]
            assert await value(conn, "select attempt from agent.run") == attempt
            await set_clock(conn, f"{attempt * 10} minutes")
            await value(conn, "select agent_internal.tick()")
            await d.until(
                "select attempt = %s or agent_internal.is_final(state) from agent.run", attempt + 1
            )
        assert await worked(d) == ("succeeded", "ok", None)
    assert await value(conn, "select attempt from agent.run") == 3


async def test_a_provider_that_never_answers_leaves_a_dead_run(
    conn: AsyncConnection, dsn: str
) -> None:
    """After the last attempt, with the reason; agent.retry lets it go on."""
    await run_all(conn, DESK + TICKET)
    script = [in_turn(Fault(500), "ok")]
    async with daemon(conn, dsn, script, parts=("worker",)) as d:
        attached = await attach(conn, SPEC)
        (run_id,) = await add_runs(conn, attached, None, change=CHANGE, max_attempts=1)
        await run_all(conn, "notify walagent_runs")
        state, why = await reason(d)
        assert state == "dead"
        assert "(attempt 1 of 1)" in why
        await value(conn, "select agent.retry(%s)", run_id)
        await d.until("select state = 'succeeded' from agent.run")


async def test_a_run_that_begins_afresh_forgets_what_was_said_and_not_what_was_spent(
    conn: AsyncConnection, dsn: str
) -> None:
    """The model is shown the change alone, with the mended prompt; limits start again, too."""
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel([in_turn(call("no_such_tool"), "ok")])
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        attached = await attach(conn, f"{SPEC}, max_steps=1")
        (run_id,) = await add_runs(conn, attached, None, change=CHANGE)
        await run_all(conn, "notify walagent_runs")
        await d.until("select state = 'failed' from agent.run")
        spent = await value(conn, "select cost from agent.run")
        await run_all(conn, "update agent.agent set system_prompt = 'Answer in one word.'")
        await value(conn, "select agent.retry(%s, fresh => true)", run_id)
        await d.until("select state = 'succeeded' from agent.run")
    request = model.requests[-1]
    assert len(request.messages) == 1
    assert request.system.startswith("Answer in one word.")
    assert await value(conn, "select cost from agent.run") > spent > 0
    assert await value(conn, "select count(*) from agent.step where kind = 'reply'") == 2


async def test_a_provider_that_asks_for_patience_gets_it(conn: AsyncConnection, dsn: str) -> None:
    """At least as long as it asked for, and it costs no attempt."""
    await run_all(conn, DESK + TICKET)
    script = [in_turn(Fault(429, retry_after="600"), "ok")]
    async with daemon(conn, dsn, script, parts=("worker",)) as d:
        run_id = await one(conn)
        await worked(d, "waiting_retry")
        found = await one_run(
            conn, "attempt, next_attempt_at between now() + '590 s' and now() + '610 s'", run_id
        )
        assert found == (0, True)


async def test_a_credential_that_nobody_accepts_pauses_the_attachment(
    conn: AsyncConnection, dsn: str
) -> None:
    """The run waits, unharmed, until a person has mended it."""
    await run_all(conn, DESK + TICKET)
    script = [in_turn(Fault(401), "ok")]
    async with daemon(conn, dsn, script, parts=("worker",)) as d:
        await one(conn)
        await d.until("select paused from agent.attachment")
        await d.until("select state = 'pending' from agent.run")
        assert await value(conn, "select paused_reason <> '' from agent.attachment")
        assert await value(conn, "select attempt from agent.run") == 0
        await value(conn, "select agent.resume('support_tickets')")
        assert await worked(d) == ("succeeded", "ok", None)


@pytest.mark.parametrize(
    ("answer", "tells"),
    [
        (Fault(400, code="bad_request"), ""),
        (Reply((Text("I thi"),), Stop.LENGTH), "max_output_tokens"),
        (Reply((Text("No."),), Stop.REFUSAL), "the model refused: No."),
    ],
)
async def test_an_answer_that_is_none_fails_the_run(
    conn: AsyncConnection, dsn: str, answer: Answer, tells: str
) -> None:
    """It would be the same again."""
    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, [answer], parts=("worker",)) as d:
        await one(conn, f"{SPEC}, max_output_tokens=512")
        state, why = await reason(d)
    assert state == "failed"
    assert tells in why


async def test_a_reply_that_the_default_limit_cuts_off_is_asked_for_again(
    conn: AsyncConnection, dsn: str
) -> None:
    """With a higher limit: a model that writes more than expected is no failure."""
    await run_all(conn, DESK + TICKET)
    spec = ModelSpec("fake", "scripted", "x", max_output_tokens=10_000)
    model = ScriptedModel([Reply((Text("I thi"),), Stop.LENGTH), "ok"], spec=spec)
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        await one(conn)
        assert await worked(d) == ("succeeded", "ok", None)
    assert [request.max_tokens for request in model.requests] == [4_096, 10_000]


async def test_a_model_that_nobody_knows_fails_the_run(conn: AsyncConnection, dsn: str) -> None:
    """With its name; the worker goes on."""
    await run_all(conn, DESK + TICKET)
    models = {"other": ScriptedModel(["ok"])}
    async with daemon(conn, dsn, models, parts=("worker",)) as d:
        await one(conn)
        await d.until("select state in ('failed', 'waiting_retry') from agent.run")
        assert "fake" in await value(conn, "select error ->> 'reason' from agent.run")


async def test_wrong_calls_go_back_to_the_model_and_then_fail_the_run(
    conn: AsyncConnection, dsn: str
) -> None:
    """Each is answered and recorded; no tool is called, and two are enough."""
    await run_all(conn, DESK + TICKET)
    broken = Reply((ToolCall("c9", "refund_user", None, "{"),), Stop.TOOL)
    script = [call("refnd"), [call("refund_user", amount="much"), call("nope")], broken, "never"]
    async with daemon(conn, dsn, script, parts=("worker",)) as d:
        await one(conn)
        state, why = await reason(d)
    assert state == "failed"
    assert why.startswith("the model did not correct itself: the arguments of refund_user")
    told = await column(conn, "select content ->> 'content' from agent.step where kind = 'result'")
    assert told[0].startswith('there is no tool "refnd"; the tools are: refund_user, update_row')
    assert 'amount: "much" is not of type number' in told[1]
    assert len(told) == 3
    assert await value(conn, "select count(*) from refund") == 0


async def test_a_corrected_model_goes_on(conn: AsyncConnection, dsn: str) -> None:
    """Words where a call is required, then the call."""
    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, ["I would.", call("refund_user"), "ok"], parts=("worker",)) as d:
        await one(conn, f"{SPEC}, tool_choice=required")
        assert await worked(d) == ("succeeded", "ok", None)
    assert await column(conn, KINDS) == ["reply", "note", "reply", "result", "reply"]


# Limits.


async def test_a_run_that_takes_too_long_is_stopped(conn: AsyncConnection, dsn: str) -> None:
    """The model is let go of."""
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel(["ok"], latency=60)
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        await one(conn, f"{SPEC}, max_seconds=1")
        assert await reason(d) == ("failed", "run exceeded max_seconds")


async def test_a_call_that_may_cost_too_much_is_not_made(conn: AsyncConnection, dsn: str) -> None:
    """The worst case is known before: nothing is asked, nothing is spent."""
    await run_all(conn, DESK + TICKET)
    spec = ModelSpec("fake", "scripted", "x", input_price=1000.0, output_price=1000.0)
    model = ScriptedModel(["ok"], spec=spec)
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        await one(conn, f"{SPEC}, max_cost=0.01")
        state, why = await reason(d)
    assert state == "failed"
    assert "max_cost" in why
    assert len(model.requests) == 0


async def test_tokens_that_are_used_up_end_the_run(conn: AsyncConnection, dsn: str) -> None:
    """And the run says how many there were."""
    await run_all(conn, DESK + TICKET)
    answer = Reply(
        (ToolCall("a", "refund_user", {}), ToolCall("b", "refund_user", {})),
        Stop.TOOL,
        Usage(1000, 0, 0, 10),
    )
    async with daemon(conn, dsn, [answer, "ok"], parts=("worker",)) as d:
        await one(conn, f"{SPEC}, max_tokens=1000")
        assert await reason(d) == ("failed", "1010 tokens used, 1000 allowed (max_tokens)")
    assert await value(conn, "select tokens from agent.run") == 1010


async def test_a_circle_is_left(conn: AsyncConnection, dsn: str) -> None:
    """The same call with the same answer, again and again."""
    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, [call("refund_user", amount=1)] * 9, parts=("worker",)) as d:
        await one(conn)
        assert await reason(d) == ("failed", "the same call had the same result 3 times")
    assert await value(conn, "select count(*) from refund") == 3


# People.


async def test_an_approved_call_is_carried_out_once(conn: AsyncConnection, dsn: str) -> None:
    """The run waits without a worker, and goes on at that very step."""
    await run_all(conn, DESK + TICKET)
    script = [[call("refund_user", amount=7), call("update_row", status="x")], "ok"]
    async with daemon(conn, dsn, script, parts=("worker",)) as d:
        await one(conn, f"{SPEC}, approve=[refund_user]")
        await worked(d, "waiting_approval")
        assert await rows(conn, "select tool, arguments from agent.pending_approval") == [
            ("refund_user", {"amount": 7})
        ]
        assert await value(conn, "select count(*) from refund") == 0
        await d.stop("worker")
        await d.start_worker()
        await value(conn, "select agent.approve(id) from agent.pending_approval")
        assert await worked(d) == ("succeeded", "ok", None)
    assert await rows(conn, "select ticket_id, amount from refund") == [(1, 7)]
    assert await column(conn, KINDS) == [
        "reply",
        "approval",
        "decision",
        "result",
        "result",
        "reply",
    ]


async def test_a_rejected_call_is_not_carried_out_and_the_model_hears_why(
    conn: AsyncConnection, dsn: str
) -> None:
    """It may do something else."""
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel([call("refund_user", amount=7), "ok"])
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        await one(conn, f"{SPEC}, approve=[refund_user]")
        await worked(d, "waiting_approval")
        await value(conn, "select agent.reject(id, 'too much') from agent.pending_approval")
        assert await worked(d) == ("succeeded", "ok", None)
    assert await value(conn, "select count(*) from refund") == 0
    answer = model.requests[-1].messages[-1].parts[0]
    assert getattr(answer, "content", "") == "a person refused this call: too much"


async def test_a_question_that_nobody_answers_is_not_a_refusal(
    conn: AsyncConnection, dsn: str
) -> None:
    """When its time is up, the model is told that, and nothing has happened."""
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel([call("refund_user", amount=7), "ok"])
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        await one(conn, f"{SPEC}, approve=[refund_user]")
        await worked(d, "waiting_approval")
        await set_clock(conn, "8 days")
        await value(conn, "select agent_internal.tick()")
        assert await worked(d) == ("succeeded", "ok", None)
    answer = model.requests[-1].messages[-1].parts[0]
    assert "nobody decided" in getattr(answer, "content", "")
    assert await value(conn, "select count(*) from refund") == 0


async def test_a_run_that_was_cancelled_while_it_waited_asks_again_after_a_retry(
    conn: AsyncConnection, dsn: str
) -> None:
    """The old question is closed; a new one is put."""
    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, [call("refund_user"), "ok"], parts=("worker",)) as d:
        run_id = await one(conn, f"{SPEC}, approve=[refund_user]")
        await worked(d, "waiting_approval")
        await value(conn, "select agent.cancel(%s)", run_id)
        await value(conn, "select agent.retry(%s)", run_id)
        await worked(d, "waiting_approval")
        await value(conn, "select agent.approve(id) from agent.pending_approval")
        assert await worked(d) == ("succeeded", "ok", None)
    states = "select state from agent.approval order by id"
    assert await column(conn, states) == ["cancelled", "approved"]


sent: list[str] = []


@tool(effect=Effect.UNSAFE)
async def transfer(ctx: ToolContext) -> str:
    """Transfer money, which cannot be taken back."""
    sent.append(ctx.idempotency_key)
    return "transferred"


@tool(effect=Effect.IDEMPOTENT)
async def post(ctx: ToolContext) -> str:
    """Post it somewhere."""
    sent.append(ctx.idempotency_key)
    return "posted"


@pytest.mark.parametrize("point", ["tool.started", "tool.done"])
async def test_an_unsafe_call_whose_outcome_is_unknown_goes_to_a_person(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """It is not made again, whatever happens; the person says what became of it."""
    sent.clear()
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel([call("transfer"), "ok"])
    async with daemon(
        conn, dsn, {"fake": model}, python=[declared(transfer)], parts=("worker",)
    ) as d:
        with faults.armed(point):
            run_id = await one(conn, "tools=[transfer]")
            await d.dies("worker")
        made = len(sent)
        await d.expire_leases()
        await d.start_worker()
        assert await reason(d, "needs_review") == (
            "needs_review",
            "outcome of transfer is unknown",
        )
        await value(conn, "select agent.resolve(%s, true, 'receipt 17')", run_id)
        assert await worked(d) == ("succeeded", "ok", None)
    assert len(sent) == made
    answer = model.requests[-1].messages[-1].parts[0]
    assert getattr(answer, "content", "") == "receipt 17"


async def test_an_idempotent_call_is_made_again_with_its_key(
    conn: AsyncConnection, dsn: str
) -> None:
    """The other side knows it by that."""
    sent.clear()
    await run_all(conn, DESK + TICKET)
    async with daemon(
        conn, dsn, [call("post"), "ok"], python=[declared(post)], parts=("worker",)
    ) as d:
        with faults.armed("tool.done"):
            await one(conn, "tools=[post]")
            await d.dies("worker")
        await d.expire_leases()
        await d.start_worker()
        assert await worked(d) == ("succeeded", "ok", None)
    assert len(sent) == 2
    assert len(set(sent)) == 1
    assert await column(conn, KINDS) == ["reply", "intent", "result", "reply"]


# Cancelling.


async def test_a_run_is_cancelled_in_the_middle_of_a_model_call(
    conn: AsyncConnection, dsn: str
) -> None:
    """At once: nobody waits for the answer.  The reason stays."""
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel(["ok"], latency=60)
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d:
        run_id = await one(conn)
        await d.until("select state = 'running' from agent.run")
        await _asked(model)
        assert await value(conn, "select agent.cancel(%s, 'wrong customer')", run_id) == "running"
        async with asyncio.timeout(5):
            assert await reason(d) == ("cancelled", "wrong customer")
    assert await column(conn, KINDS) == []


async def _asked(model: ScriptedModel) -> None:
    async with asyncio.timeout(10):
        while not model.requests:  # noqa: ASYNC110 - the event is inside the model
            await asyncio.sleep(0.005)


async def test_a_cancellation_that_nobody_heard_of_is_seen_at_the_next_write(
    conn: AsyncConnection, dsn: str
) -> None:
    """The notification is only a hint."""

    def cancel(_request: Request) -> Answer:
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("update agent.run set cancel_requested = true")
        return call("refund_user", amount=7)

    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, [cancel, "ok"], parts=("worker",)) as d:
        await one(conn)
        assert (await worked(d))[0] == "cancelled"
    assert await value(conn, "select count(*) from refund") == 0


# Leases.


@pytest.mark.slow
async def test_a_slow_model_does_not_lose_the_run(conn: AsyncConnection, dsn: str) -> None:
    """Heartbeats extend the lease for as long as it takes."""
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel(["ok"], latency=2.5)
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",), lease=0.9) as d:
        await d.start_worker(lease=0.9)
        await one(conn)
        assert await worked(d) == ("succeeded", "ok", None)
    assert await value(conn, "select attempt from agent.run") == 1
    assert len(model.requests) == 1


async def test_a_worker_that_lost_a_run_leaves_it_alone(conn: AsyncConnection, dsn: str) -> None:
    """Another one took it over while the model was thinking: the late answer changes nothing."""

    def lose(_request: Request) -> Answer:
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("update agent.run set lease = lease + 1, worker = 'other'")
        return call("refund_user", amount=7)

    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, [lose, "ok"], parts=("worker",)) as d:
        run_id = await one(conn)
        await d.until("select worker = 'other' from agent.run")
        await d.stop("worker")
    assert await one_run(conn, "state::text, worker, result", run_id) == ("running", "other", None)
    assert await column(conn, KINDS) == []
    assert await value(conn, "select count(*) from refund") == 0


# Stopping.


async def test_a_worker_that_stops_lets_its_runs_end(conn: AsyncConnection, dsn: str) -> None:
    """And claims no more."""
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel(["ok"], latency=0.5)
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",), slots=2) as d:
        await one(conn, f"{SPEC}", 6)
        await _asked(model)
        await d.stop("worker")
        ended = await value(conn, "select count(*) from agent.run where state = 'succeeded'")
        waiting = await value(conn, "select count(*) from agent.run where state = 'pending'")
        assert ended >= 2
        assert ended + waiting == 6
        assert await value(conn, "select count(*) from agent.worker") == 0


async def test_a_run_that_does_not_end_in_time_is_given_back(
    conn: AsyncConnection, dsn: str
) -> None:
    """As if it had not been started: another worker takes it at once."""
    await run_all(conn, DESK + TICKET)
    model = ScriptedModel([in_turn("late", "ok")], latency=30)
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",), drain=0.1) as d:
        run_id = await one(conn)
        await _asked(model)
        async with asyncio.timeout(10):
            await d.stop("worker")
        assert await one_run(conn, "state::text, attempt, lease_expires_at", run_id) == (
            "pending",
            0,
            None,
        )


async def test_two_workers_share_the_work(conn: AsyncConnection, dsn: str) -> None:
    """Each run is worked by one of them."""
    await run_all(conn, DESK + TICKET)
    # Long enough for the second one to begin on a busy machine.
    model = ScriptedModel([call("refund_user"), "ok"], latency=0.1)
    async with daemon(conn, dsn, {"fake": model}, parts=("worker",), slots=3) as d:
        first = d.worker
        assert first is not None
        other = asyncio.create_task(_another(d))
        await one(conn, SPEC, 40)
        await d.until("select count(*) = 40 from agent.run where state = 'succeeded'")
        other.cancel()
        with suppress(asyncio.CancelledError):
            await other
    assert await value(conn, "select count(*) from refund") == 40
    assert await value(conn, "select count(distinct worker) from agent.run") == 2


async def _another(d: Daemon) -> None:
    await Worker(WorkerSettings("another", slots=3, poll=0.2), d.shop).run()


async def test_no_run_is_started_as_it_arrives_while_others_wait(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intake is offered no slot before a claim that is due, nor after one that left runs."""
    await run_all(conn, DESK)
    left = asyncio.Event()

    async def leaves(*arguments: Any) -> list[Any]:  # noqa: ANN401 - those of the function
        arguments[-1].more = True
        left.set()
        return []

    async with daemon(conn, dsn, {}, parts=("worker",), slots=3, poll=60) as d:
        worker = d.worker
        assert worker is not None
        async with asyncio.timeout(DEADLINE):
            while worker.offer() is None:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
        worker.wake()
        assert worker.offer() is None
        monkeypatch.setattr(claiming, "claim_runs", leaves)
        await asyncio.wait_for(left.wait(), DEADLINE)
        await asyncio.sleep(0)
        assert worker.offer() is None


@pytest.mark.slow
async def test_notifications_about_nothing_cost_few_claims(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any login can notify, as often as it likes; a run that comes after is executed."""
    await run_all(conn, DESK)
    claims = list[float]()
    claim = claiming.claim_runs

    async def counted(*arguments: Any) -> Any:  # noqa: ANN401 - those of the function
        claims.append(time.monotonic())
        return await claim(*arguments)

    async with daemon(conn, dsn, ["Done."]) as d:
        await attach(conn, "")
        await d.caught_up()
        monkeypatch.setattr(claiming, "claim_runs", counted)
        for _ in range(2000):
            await run_all(conn, "notify walagent_runs")
        seconds = (time.monotonic() - claims[0]) if claims else 0.0
        assert len(claims) <= 15 + 10 * seconds
        await run_all(conn, "insert into support_tickets (issue) values ('x')")
        assert len(await d.ended()) == 1


async def test_a_row_whose_version_is_gone_fails_its_run_alone(
    conn: AsyncConnection, dsn: str
) -> None:
    """Somebody has deleted what must not be deleted; the others go on."""
    await run_all(conn, DESK + TICKET)
    async with daemon(conn, dsn, ["ok"], parts=("worker",)) as d:
        first = await one(conn, f"name=a, {SPEC}")
        await worked(d)
        attached = await attach(conn, f"name=b, {SPEC}")
        await add_runs(conn, attached, "1", change=CHANGE, attachment_version=99)
        await run_all(conn, "notify walagent_runs")
        await d.until("select count(*) = 2 from agent.run where agent_internal.is_final(state)")
    failed = await rows(
        conn, "select state::text, error ->> 'reason' from agent.run where id > %s", first
    )
    assert failed == [("failed", f"version 99 of attachment {attached} does not exist")]


async def test_a_process_is_not_ready_while_ticks_stand_still(
    conn: AsyncConnection, dsn: str
) -> None:
    """Leases do not expire and retries do not start; the reason names the lock."""
    await run_all(conn, DESK)
    async with session(dsn) as other:
        await run_all(
            other,
            "begin; lock agent_internal.tick_lock in share row exclusive mode",
        )
        async with daemon(conn, dsn, ["ok"], parts=("worker",), lease=0.3) as d:
            assert d.worker is not None
            worker = d.worker
            await until_true(lambda: bool(worker.reasons))
            assert "agent_internal.tick_lock" in worker.reasons[0]
            await run_all(other, "rollback")
            await until_true(lambda: not worker.reasons)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Fault(400, message="sk-123 of row 7"), "ModelRejectedError"),
        (Reply((Text("sk-123"),), Stop.REFUSAL), "the model refused"),
    ],
)
async def test_a_failed_run_is_logged_with_a_reason_and_without_data(
    conn: AsyncConnection, dsn: str, caplog: pytest.LogCaptureFixture, answer: Answer, said: str
) -> None:
    """At a level that is seen; what a provider or model has written stays in the database."""
    await run_all(conn, DESK + TICKET)
    with caplog.at_level("INFO"):
        async with daemon(conn, dsn, [answer], parts=("worker",)) as d:
            await one(conn, f"{SPEC}, max_output_tokens=512")
            await reason(d)
            await until_true(lambda: "run.processed" in caplog.text)
    (record,) = [each for each in caplog.records if "run.processed" in each.getMessage()]
    assert record.levelname == "WARNING"
    assert said in caplog.text
    assert "sk-123" not in caplog.text


async def test_the_age_and_number_of_queued_runs_is_known_by_agent(
    conn: AsyncConnection,
) -> None:
    """Of runs that could be executed now: not of one that is blocked or whose agent is paused."""
    await run_all(conn, DESK)
    attachment = await attach(conn, "")
    assert await oldest_queued(conn) == 0
    await add_runs(conn, attachment, "a", "a")
    await set_clock(conn, "1 hour")
    assert await oldest_queued(conn) == pytest.approx(3600, abs=60)
    assert await count_runs(conn) == {("support_tickets", "pending"): 2}
    await run_all(conn, "select agent.pause(name) from agent.attachment")
    assert await oldest_queued(conn) == 0


async def until_true(seen: Callable[[], bool]) -> None:
    """Wait for what a heartbeat changes."""
    async with asyncio.timeout(DEADLINE):
        while not seen():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)
