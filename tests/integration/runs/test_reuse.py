"""Reuse: equal first calls share one reply, in flight too, and each run acts on its own row."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, column, refused, rows, run_all, value
from tests.helpers.queue import add_runs, claim
from walagent.base import faults
from walagent.domain.run import RunState
from walagent.errors import ModelRejectedError, ModelUnavailableError
from walagent.message import ModelSpec, Reply, Stop, Text, Thinking, ToolCall, Usage
from walagent.models.limits import ModelLimits
from walagent.models.script import Answer, call, in_turn
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.pruning import forget
from walagent.runs.worker_models import Models
from walagent.store import runs
from walagent.store.calls import shared_calls
from walagent.store.people import listings
from walagent.store.runs import Spent

SPEC = "writes=[status], reuse=1d"
CLOSE = call("update_row", status="closed")
PRICED = ModelSpec("fake", "scripted", "fake", input_price=10.0, output_price=50.0)
COST = "select count(*) filter (where cost > 0), sum(cost) from agent.step where kind = 'reply'"
CLOSED = "select id from support_tickets where status = 'closed' order by id"


async def tickets(
    conn: AsyncConnection, attached: int, first: int, issues: Sequence[str], **more: str
) -> None:
    """Insert tickets, and their runs."""
    for number, issue in enumerate(issues, first):
        insert = "insert into support_tickets (id, issue) values (%s, %s)"
        await conn.execute(insert, [number, issue])
        change = {"op": "insert", "new": {"id": number, "issue": issue, **more}}
        await add_runs(conn, attached, str(number), change=change)
    await run_all(conn, "notify walagent_runs")


@asynccontextmanager
async def desk(
    conn: AsyncConnection,
    dsn: str,
    answer: Answer,
    *,
    second: Answer = "done",
    spec: str = SPEC,
    latency: float = 0.0,
) -> AsyncIterator[tuple[Daemon, ScriptedModel, int]]:
    """The desk with an agent that reuses replies."""
    await run_all(conn, DESK)
    attached = await attach(conn, spec)
    model = ScriptedModel([answer, second], spec=PRICED, latency=latency)
    registry = Models({"fake": PRICED}, lambda _: model, ModelLimits())
    async with daemon(conn, dsn, registry, parts=("worker",)) as d:
        yield d, model, attached


async def ended(d: Daemon, count: int) -> list[str]:
    """Wait until all runs have ended; return their states."""
    await d.until(
        "select count(*) = %s and bool_and(agent_internal.is_final(state)) from agent.run", count
    )
    return await column(d.conn, "select state::text from agent.run order by id")


async def test_equal_calls_in_flight_share_one_reply(conn: AsyncConnection, dsn: str) -> None:
    """Each run writes its own row; one of them has paid."""
    async with desk(conn, dsn, CLOSE, latency=0.3) as (d, model, attached):
        await tickets(conn, attached, 1, ["same"] * 8)
        assert await ended(d, 8) == ["succeeded"] * 8
        assert len(model.requests) == 1
    assert await column(conn, CLOSED) == list(range(1, 9))
    assert (await rows(conn, COST))[0][0] == 1
    reused = "select distinct content -> 'reused' ->> 'run' from agent.step where cost = 0"
    asked = "select run_id::text from agent.step where kind = 'reply' and cost > 0"
    assert await column(conn, reused) == await column(conn, asked)
    assert await column(conn, "select distinct cost from agent.run order by 1") == [
        0,
        await value(conn, "select cost from agent.step where cost > 0"),
    ]
    assert await value(conn, "select count(*) from agent_internal.shared_wait") == 0


async def test_a_later_equal_call_has_the_reply_and_another_text_has_its_own(
    conn: AsyncConnection, dsn: str
) -> None:
    """What differs in what the model is sent, is asked."""
    async with desk(conn, dsn, CLOSE) as (d, model, attached):
        await tickets(conn, attached, 1, ["one"])
        await ended(d, 1)
        await tickets(conn, attached, 2, ["one", "two", "one"])
        assert await ended(d, 4) == ["succeeded"] * 4
        assert len(model.requests) == 2
    assert await column(conn, CLOSED) == [1, 2, 3, 4]


async def test_only_the_first_call_of_a_run_is_shared(conn: AsyncConnection, dsn: str) -> None:
    """Later ones depend on what the tools of the run have said."""
    spec = "tools=[refund_user], bind=[ticket_id=id], reuse=1d"
    async with desk(conn, dsn, call("refund_user", amount=7), spec=spec) as (d, model, attached):
        await tickets(conn, attached, 1, ["same"])
        await ended(d, 1)
        await tickets(conn, attached, 2, ["same"])
        assert await ended(d, 2) == ["succeeded"] * 2
        assert len(model.requests) == 3
    assert await rows(conn, "select ticket_id, amount from refund order by 1") == [(1, 7), (2, 7)]


@pytest.mark.parametrize("point", ["model.asking", "model.answered"])
async def test_a_crash_of_the_process_that_asks_loses_and_doubles_nothing(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """Those who wait go on when its lease has ended; one of them asks."""
    async with desk(conn, dsn, CLOSE) as (d, model, attached):
        with faults.armed(point):
            await tickets(conn, attached, 1, ["same"] * 5)
            await d.dies("worker")
        await d.expire_leases()
        await run_all(
            conn,
            "update agent.run set next_attempt_at = agent_internal.now()"
            " where state = 'waiting_retry'",
        )  # as at the end of the lease
        await d.start_worker()
        assert await ended(d, 5) == ["succeeded"] * 5
        assert len(model.requests) == (1 if point == "model.asking" else 2)
    assert await column(conn, CLOSED) == [1, 2, 3, 4, 5]
    assert await value(conn, "select count(*) from agent.step where cost > 0") == 1


async def test_a_run_that_waits_is_due_when_the_lease_ends(conn: AsyncConnection, dsn: str) -> None:
    """Whatever becomes of the process that asks, and of its notification."""
    async with desk(conn, dsn, CLOSE, latency=1.0) as (d, _, attached):
        await tickets(conn, attached, 1, ["same"] * 2)
        waits = "select exists (select from agent.run where state = 'waiting_retry')"
        await d.until(waits)
        late = """select w.next_attempt_at >= h.lease_expires_at, w.error ->> 'reason', w.attempt
                    from agent.run w, agent.run h
                   where w.state = 'waiting_retry' and h.state = 'running'"""
        (due, reason, attempt) = (await rows(conn, late))[0]
        assert (due, attempt) == (True, 0)
        assert reason.startswith("waits for the reply of run ")
        assert await ended(d, 2) == ["succeeded"] * 2


async def test_a_run_that_fails_lets_the_next_one_ask(conn: AsyncConnection, dsn: str) -> None:
    """Without waiting for its lease."""
    failing = in_turn(ModelRejectedError("not this one"), CLOSE)
    async with desk(conn, dsn, failing, latency=0.2) as (d, model, attached):
        await tickets(conn, attached, 1, ["same"] * 3)
        assert sorted(await ended(d, 3)) == ["failed", "succeeded", "succeeded"]
        assert len(model.requests) == 2


async def test_a_run_without_a_reply_lets_one_other_ask_for_the_rest(conn: AsyncConnection) -> None:
    """Otherwise a thousand equal rows in an outage would wake each other half a million times."""
    await run_all(conn, DESK)
    attached = await attach(conn, SPEC)
    await tickets(conn, attached, 1, ["same"] * 4)
    first, *others = await claim(conn)
    digest = bytes(32)
    assert await shared_calls.share_call(conn, first, digest) is None
    for each in others:
        shared = await shared_calls.share_call(conn, each, digest)
        assert shared is not None
        assert (shared.run, shared.content) == (first.run_id, None)
    due = "select id from agent.run where state = 'waiting_retry' and next_attempt_at <= now()"
    assert await column(conn, due) == []
    await runs.park_run(conn, first, RunState.WAITING_RETRY, delay=3600.0, spent=Spent(0, None))
    await shared_calls.wake_waiting(conn, first.run_id)
    assert await column(conn, due) == [others[0].run_id]
    waits = "select run_id, of_run from agent_internal.shared_wait order by 1"
    assert await rows(conn, waits) == [(o.run_id, others[0].run_id) for o in others[1:]]


async def test_a_run_that_is_cancelled_lets_the_next_one_ask(
    conn: AsyncConnection, dsn: str
) -> None:
    """At once, and not when its lease would have ended."""
    async with desk(conn, dsn, CLOSE, latency=3.0) as (d, model, attached):
        await tickets(conn, attached, 1, ["same"] * 3)
        await d.until("select count(*) = 2 from agent.run where state = 'waiting_retry'")
        asker = await value(conn, "select id from agent.run where state = 'running'")
        await value(conn, "select agent.cancel(%s)", asker)
        asked = "select count(*) = 1 from agent.run where state = 'running' and id <> %s"
        async with asyncio.timeout(8):
            await d.until(asked, asker)
        assert sorted(await ended(d, 3)) == ["cancelled", "succeeded", "succeeded"]
        assert len(model.requests) == 2


async def test_a_run_that_is_retried_shares_again(conn: AsyncConnection, dsn: str) -> None:
    """An outage costs one request for each attempt, not one for each row."""
    out = ModelUnavailableError("out", retry_after=0.1)
    async with desk(conn, dsn, in_turn(out, CLOSE), latency=0.1) as (d, model, attached):
        await tickets(conn, attached, 1, ["same"] * 4)
        assert await ended(d, 4) == ["succeeded"] * 4
        assert len(model.requests) == 2


REFUSED = Reply((Text("No."),), Stop.REFUSAL, Usage(100, 0, 0, 10))
BROKEN = Reply((ToolCall("c", "update_row", None, "{", "cut"),), Stop.TOOL, Usage(100, 0, 0, 10))
THOUGHT = Reply(
    (Thinking("x", {"signature": "s"}), ToolCall("c", "update_row", {"status": "closed"})),
    Stop.TOOL,
    Usage(100, 0, 0, 10),
)


@pytest.mark.parametrize(
    "bad", [REFUSED, BROKEN, call("update_row", status=["x"]), call("no_such_tool")]
)
async def test_a_reply_that_was_not_accepted_is_not_shared(
    conn: AsyncConnection, dsn: str, bad: Answer
) -> None:
    """The next run asks for one of its own."""
    async with desk(conn, dsn, in_turn(bad, CLOSE), second=CLOSE) as (d, _, attached):
        await tickets(conn, attached, 1, ["same"])
        await ended(d, 1)
        await tickets(conn, attached, 2, ["same"])
        assert (await ended(d, 2))[1] == "succeeded"
    assert await value(conn, "select count(*) from agent.step where content ? 'reused'") == 0


@pytest.mark.parametrize(("finish", "shared"), [("after_call", 1), ("answer", 0)])
async def test_reasoning_is_not_shared(
    conn: AsyncConnection, dsn: str, finish: str, shared: int
) -> None:
    """Its provider wants it back with the messages that it was written for."""
    spec = f"{SPEC}, finish={finish}"
    async with desk(conn, dsn, THOUGHT, spec=spec) as (d, _, attached):
        await tickets(conn, attached, 1, ["same"])
        await ended(d, 1)
        await tickets(conn, attached, 2, ["same"])
        assert await ended(d, 2) == ["succeeded"] * 2
    found = "select content from agent.step where content ? 'reused'"
    contents = await column(conn, found)
    assert len(contents) == shared
    assert not any("thinking" in part for each in contents for part in each["parts"])


async def test_a_retry_by_a_person_asks_the_model(conn: AsyncConnection, dsn: str) -> None:
    """The run has steps: another reply is wanted."""
    async with desk(conn, dsn, in_turn(REFUSED, "fine")) as (d, model, attached):
        await tickets(conn, attached, 1, ["same"])
        assert await ended(d, 1) == ["failed"]
        await run_all(conn, "select agent.retry(id, fresh => true) from agent.run")
        await d.until("select state = 'succeeded' from agent.run")
        assert len(model.requests) == 2


async def test_what_is_no_longer_shared_is_asked_again_and_removed(
    conn: AsyncConnection, dsn: str
) -> None:
    """By the time that the agent says, counted from the call."""
    async with desk(conn, dsn, CLOSE) as (d, model, attached):
        await tickets(conn, attached, 1, ["same"])
        await ended(d, 1)
        old = "update agent_internal.shared_call set keep_until = agent_internal.now()"
        await run_all(conn, old)
        await tickets(conn, attached, 2, ["same"])
        await ended(d, 2)
        assert len(model.requests) == 2
        left = "select count(*) from agent_internal.shared_call"
        assert await value(conn, left) == 1
        await forget(conn, timedelta(days=1))
        assert await value(conn, left) == 1
        await run_all(conn, f"{old} - interval '1 s'")
        await forget(conn, timedelta(days=1))
        assert await value(conn, left) == 0


async def test_rows_are_equal_whatever_order_their_columns_are_stored_in(
    conn: AsyncConnection, dsn: str
) -> None:
    """A run that starts as it is inserted has the order of the table; jsonb has another."""
    await run_all(conn, DESK)
    await attach(conn, SPEC)
    model = ScriptedModel([CLOSE], spec=PRICED)
    registry = Models({"fake": PRICED}, lambda _: model, ModelLimits())
    insert = "insert into support_tickets (id, issue) values (%s, 'same')"
    async with daemon(conn, dsn, registry) as d:
        await conn.execute(insert, [1])  # started by the reader
        await ended(d, 1)
        await d.stop("worker")
        await conn.execute(insert, [2])  # stored, and claimed later
        await d.until("select count(*) = 2 from agent.run")
        await d.start_worker()
        assert await ended(d, 2) == ["succeeded"] * 2
        assert len(model.requests) == 1


async def test_a_batch_of_repeated_texts_asks_once_for_each_text(
    conn: AsyncConnection, dsn: str
) -> None:
    """In more runs than the worker has slots."""
    texts = [f"text {n % 7}" for n in range(60)]
    async with desk(conn, dsn, CLOSE, latency=0.05) as (d, model, attached):
        await tickets(conn, attached, 1, texts)
        assert await ended(d, 60) == ["succeeded"] * 60
        assert len(model.requests) == 7
    assert len(await column(conn, CLOSED)) == 60
    (cost,) = await listings.list_costs(conn, ["agent"])
    assert (cost["runs"], cost["calls"], cost["input"], cost["unknown"]) == (60, 7, 700, 0)
    assert cost["per_run"] == pytest.approx(7 * 0.0015 / 60)
    assert await value(conn, "select count(*) from agent.broken_invariant") == 0


@pytest.mark.parametrize(
    ("more", "state", "word"),
    [
        ("""parameters => '{"temperature": 0.2}'""", "WA014", "temperature"),
        ("tools => '{refund_user}'", None, ""),
        ("tools => '{close_ticket}'", "WA011", 'argument "id"'),
        ("writes => '{id}'", "WA011", 'argument "id"'),
    ],
)
async def test_attach_refuses_what_would_make_a_shared_reply_wrong(
    conn: AsyncConnection, more: str, state: str | None, word: str
) -> None:
    """Chance, and arguments that a model could only take from the key."""
    await run_all(
        conn,
        f"""{DESK} create function close_ticket(id bigint) returns text
        language sql return 'closed';""",
    )
    tried = f"select agent.attach('support_tickets', 'fake', reuse => '1 day', {more})"
    if state is None:
        await run_all(conn, tried)
        return
    error = await refused(conn, tried)
    assert error.sqlstate == state
    assert word in str(error)
