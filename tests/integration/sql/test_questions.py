"""Questions as runs: asked, claimed, resumed, and held by nobody but who asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from tests.helpers.queue import LEASE, NOTHING, add_runs, claim, one_run, set_clock
from walagent.domain.agent_spec import AgentSpec, Authority
from walagent.domain.run import Claim, RunSpec, RunState, StepKind
from walagent.message import Usage
from walagent.store import budgets, claiming, questions, runs
from walagent.store.budgets import Refusal, WorstCase
from walagent.store.claiming import ClaimScope
from walagent.store.questions import ClaimedQuestion
from walagent.store.runs import NewStep, Record

REPLY = NewStep(0, StepKind.REPLY, {"by": "planner"}, Usage(100, output_tokens=10), 0.25)


@asynccontextmanager
async def asker(conn: AsyncConnection, dsn: str) -> AsyncIterator[AsyncConnection]:
    """The connection of a login that may ask, and nothing else."""
    async with role(conn) as name:
        await value(conn, "select agent.grant_asker(%s)", name)
        async with session(dsn, user=name) as own:
            yield own
        await run_all(conn, f"delete from agent.session where owner = '{name}'")


async def ask(conn: AsyncConnection, name: str = "s", text: str = "How many?") -> ClaimedQuestion:
    """Ask a question and claim its run."""
    new = await questions.ask(conn, name, text, {"critic": False})
    asked = await questions.claim_question(conn, new, "here", LEASE)
    assert asked is not None
    return asked


async def reserve(
    conn: AsyncConnection, held: Claim, tokens: int, cost: float | None = None, call: int = 0
) -> Refusal | None:
    """Reserve, with the names of an agent and an attachment."""
    spec = RunSpec(
        held, AgentSpec("support_tickets", "m"), Authority("x"), source="support_tickets"
    )
    worst = WorstCase("m", tokens, None if cost is None else Decimal(str(cost)))
    return await budgets.reserve(conn, spec, call, worst)


async def test_who_asks_holds_the_run_and_ends_it(conn: AsyncConnection, dsn: str) -> None:
    """With the functions that a worker uses; of tables, only the answer is written."""
    async with asker(conn, dsn) as own:
        asked = await ask(own)
        held = asked.claim
        assert (asked.text, asked.options) == ("How many?", {"critic": False})
        assert (held.kind, held.reason, held.principal) == ("question", "question", own.info.user)
        assert (held.lease, held.attempt, held.steps, held.change) == (1, 1, (), {})
        assert held.question is not None
        assert held.question["session"] == "s"
        await runs.record_step(own, held, REPLY)
        assert await claiming.heartbeat(own, "here", [held], LEASE) == {}
        async with own.transaction():
            await runs.finish_run(
                own, held, RunState.SUCCEEDED, result="20", error=None, spent=NOTHING
            )
            await questions.keep_answer(own, asked.id, {"answer": "20"})
        assert await one_run(conn, "state::text, result", held.run_id) == ("succeeded", "20")
        assert await value(conn, "select answer from agent.question") == {"answer": "20"}
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_session_has_one_queue(conn: AsyncConnection) -> None:
    """It goes with the session."""
    first, second, other = await ask(conn), await ask(conn), await ask(conn, "t")
    assert first.claim.queue_id == second.claim.queue_id != other.claim.queue_id
    queues = "select kind, session_id from agent_internal.queue order by id"
    assert await rows(conn, queues) == [("question", "s"), ("question", "t")]
    await run_all(conn, "delete from agent.session where id = 's'")
    assert await rows(conn, queues) == [("question", "t")]


async def test_no_worker_claims_a_question_that_it_was_not_asked_to(conn: AsyncConnection) -> None:
    """Kinds are asked for by name; who asks for questions gets no run of an agent."""
    await run_all(conn, DESK)
    agents = await add_runs(conn, await attach(conn, ""), "a")
    new = await questions.ask(conn, "s", "How many?", {})
    assert [held.run_id for held in await claim(conn)] == agents
    found = await claiming.claim_runs(conn, "w", 10, LEASE, scope=ClaimScope(("question",)))
    assert [held.run_id for held in found] == [new.run_id]


async def test_a_question_whose_process_is_gone_is_resumed(conn: AsyncConnection, dsn: str) -> None:
    """When its lease has run out; until then it is said how long that takes."""
    async with asker(conn, dsn) as own:
        first = await ask(own)
        await runs.record_step(own, first.claim, REPLY)
        left = await questions.resume_session(own, "s")
        assert left is not None
        assert left.run_id is None
        assert left.wait == pytest.approx(LEASE.total_seconds(), abs=5)
        await set_clock(conn, "1 minute")
        left = await questions.resume_session(own, "s")
        assert left is not None
        again = await questions.claim_question(own, left, "there", LEASE)
        assert again is not None
        assert (again.claim.lease, again.claim.attempt) == (2, 2)
        assert again.claim.steps == (REPLY.recorded,)
        with pytest.raises(psycopg.Error, match="no longer held"):
            await runs.record_step(own, first.claim, REPLY)
        await runs.finish_run(
            own, again.claim, RunState.SUCCEEDED, result="20", error=None, spent=NOTHING
        )
        assert await questions.resume_session(own, "s") is None
        assert await questions.resume_session(own, "unknown") is None


async def test_a_question_that_waits_is_resumed_at_once(conn: AsyncConnection) -> None:
    """Whatever it waits for: the person is here now.  The latest comes first."""
    older, newer = await ask(conn), await ask(conn)
    for asked in (older, newer):
        await runs.park_run(
            conn, asked.claim, RunState.WAITING_RETRY, delay=900, refund=True, spent=NOTHING
        )
    for expected in (newer, older):
        left = await questions.resume_session(conn, "s")
        assert left is not None
        again = await questions.claim_question(conn, left, "here", LEASE)
        assert again is not None
        assert (again.id, again.claim.attempt) == (expected.id, 1)


async def test_a_new_question_is_claimed_before_one_that_was_left(conn: AsyncConnection) -> None:
    """The queue has an older run to give, and it is not the one that was asked for."""
    await ask(conn, text="Left?")
    await set_clock(conn, "1 minute")
    assert (await ask(conn, text="New?")).text == "New?"


async def test_a_question_that_kills_its_processes_is_given_up(conn: AsyncConnection) -> None:
    """Like any run, though after more attempts."""
    held = (await ask(conn)).claim
    await run_all(conn, "update agent.run set attempt = max_attempts")
    await set_clock(conn, "1 minute")
    assert await questions.resume_session(conn, "s") is None
    assert await one_run(conn, "state::text", held.run_id) == ("dead",)


async def test_asking_ends_what_was_left_for_a_week(conn: AsyncConnection) -> None:
    """Of any session, and no daemon need be there."""
    held = (await ask(conn)).claim
    await set_clock(conn, "8 days")
    await ask(conn, "t")
    state, error = await one_run(conn, "state::text, error ->> 'reason'", held.run_id)
    assert (state, error) == ("cancelled", "session was not continued for 7 days")


async def test_a_session_is_its_owners(conn: AsyncConnection, dsn: str) -> None:
    """Another login cannot ask in it; to resume it, it is as if it were not there."""
    async with asker(conn, dsn) as one, asker(conn, dsn) as other:
        await ask(one)
        await refused(other, "select * from agent_internal.ask('s', 'x', '{}')", state="WA003")
        assert await questions.resume_session(other, "s") is None
        await set_clock(conn, "1 minute")
        assert await questions.resume_session(other, "s") is None
        assert await value(conn, "select state::text from agent.run") == "running"


# Attacks.


@asynccontextmanager
async def attacker(
    conn: AsyncConnection, dsn: str
) -> AsyncIterator[tuple[AsyncConnection, dict[str, Claim]]]:
    """A login that asks, a run of its own, one of another login's, and one of an agent."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, "tools=[refund_user]"), "a", "b")
    await value(conn, "select agent_internal.claim_runs('w', 1, '1 minute')")
    async with asker(conn, dsn) as victim, asker(conn, dsn) as own:
        await ask(victim, "theirs")
        mine = await ask(own, "mine")
        agents = Claim(**{**_fields(mine.claim), "run_id": 1})
        others = Claim(**{**_fields(mine.claim), "run_id": mine.claim.run_id - 1})
        yield own, {"mine": mine.claim, "others": others, "agents": agents}


def _fields(held: Claim) -> dict[str, object]:
    return {name: getattr(held, name) for name in held.__slots__}


HELD = (
    "record_step({run}, {lease}, 0, 'reply', '{{}}')",
    "record_step({run}, {lease}, 0, 'reply', '{{}}', '{{1,2,3,4}}', 1, 1, 0)",
    "reserve({run}, {lease}, 0, 'fake', 10, 1)",
    "reserve({run}, {lease}, 0, 'fake', 10, 1, 'support_tickets', 'support_tickets')",
    "finish_run({run}, {lease}, 'failed', null, null, 0, 0)",
    "finish_run({run}, {lease}, 'cancelled', null, null, 0, 0, true)",
    "finish_with_step({run}, {lease}, 0, 'reply', '{{}}', null, 0, 0, 'failed', '', null, 0, 0)",
    "park_run({run}, {lease}, 'waiting_retry', '1 year', true, null, 0, 0)",
    "park_run({run}, {lease}, 'pending', null, false, null, 0, 0, true)",
    "wait_for_budget({run}, {lease}, '{{}}', 0, 0)",
    "heartbeat('w', array[{run}], array[{lease}], '1 year')",
    "heartbeat('w', array[{mine}, {run}], array[1, {lease}], '1 year')",
)


@pytest.mark.parametrize("whose", ["others", "agents"])
@pytest.mark.parametrize("lease", [1, 2])
async def test_a_run_that_is_not_ones_own_cannot_be_held(
    conn: AsyncConnection, dsn: str, whose: str, lease: int
) -> None:
    """Whether or not its number and lease are guessed; nothing of it changes."""
    state = "select to_jsonb(r) from agent.run r order by id"
    async with attacker(conn, dsn) as (own, held):
        before = await column(conn, state)
        run, mine = held[whose].run_id, held["mine"].run_id
        for call in HELD:
            text = call.format(run=run, lease=lease, mine=mine)
            error = await refused(own, f"select * from agent_internal.{text}", state="42501")
            assert f"may not hold run {run}" in str(error)
            assert await column(conn, state) == before, call
            assert await rows(conn, "select * from agent.step") == []
            assert await rows(conn, "select * from agent.spend") == []


async def test_a_run_that_is_not_there_is_nobodys(conn: AsyncConnection, dsn: str) -> None:
    """The answer is the same, so it does not say which runs there are."""
    async with attacker(conn, dsn) as (own, held):
        for call in HELD:
            text = call.format(run=999, lease=1, mine=held["mine"].run_id)
            await refused(own, f"select * from agent_internal.{text}", state="42501")


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "arguments",
    [
        "",
        ", _kinds => '{agent}'",
        ", _kinds => '{question}'",
        ", _kinds => '{agent,question}', _queue => {mine}",
        ", _kinds => null, _queue => {mine}",
        ", _kinds => '{question}', _queue => {others}",
        ", _kinds => '{question}', _queue => {agents}",
        ", _kinds => '{agent}', _queue => {agents}",
        ", _kinds => '{question}', _queue => 999",
    ],
)
async def test_another_queue_cannot_be_claimed_from(
    conn: AsyncConnection, dsn: str, arguments: str
) -> None:
    """Whatever kinds and queue it names."""
    queues = "select to_jsonb(q) from agent_internal.queue q order by id"
    async with attacker(conn, dsn) as (own, _):
        await set_clock(conn, "5 minutes")
        await value(conn, "select agent_internal.tick()")
        before = await column(conn, queues)
        agents, others, mine = await column(conn, "select id from agent_internal.queue order by id")
        for name, number in (("agents", agents), ("others", others), ("mine", mine)):
            arguments = arguments.replace(f"{{{name}}}", str(number))
        call = f"select * from agent_internal.claim_runs('x', 9, '1 hour'{arguments})"
        await refused(own, call, state="42501")
        assert await column(conn, queues) == before


async def test_an_answer_is_written_by_who_asked(conn: AsyncConnection, dsn: str) -> None:
    """Of another login's question there is no row to write to."""
    async with attacker(conn, dsn) as (own, _):
        await run_all(own, """update agent.question set answer = '{"answer": "42"}'""")
        found = (
            "select s.id, answer from agent.question q join agent.session s on s.id = session_id"
        )
        assert dict(await rows(conn, found)) == {"theirs": None, "mine": {"answer": "42"}}
        await refused(own, "update agent.question set session_id = 'theirs'", state="42501")


async def test_a_budget_of_somebody_else_is_not_used_up(conn: AsyncConnection, dsn: str) -> None:
    """Not one of another login, nor of an agent, whatever names a caller gives."""
    async with attacker(conn, dsn) as (own, held):
        theirs = await value(conn, "select owner from agent.session where id = 'theirs'")
        for name, scope, whom in (
            ("theirs", "asker", theirs),
            ("mine", "asker", own.info.user),
            ("agent", "agent", "support_tickets"),
            ("attachment", "attachment", "support_tickets"),
        ):
            await conn.execute(
                f"insert into agent.budget (max_tokens, name, {scope})"
                f" values (100, %s, %s)".encode(),
                [name, whom],
            )
        assert await reserve(own, held["mine"], 60) is None
        reserved = (
            "select name, reserved_tokens from agent.budget_overview where reserved_tokens > 0"
        )
        assert await rows(conn, reserved) == [("mine", 60)]


@pytest.mark.parametrize(
    ("tokens", "cost"), [(-50, 0.0), (10, -5.0), (10, float("nan")), (10, float("inf"))]
)
async def test_what_is_no_amount_is_neither_reserved_nor_settled(
    conn: AsyncConnection, dsn: str, tokens: int, cost: float
) -> None:
    """It would refill a budget that others share, or use it up for all time."""
    left = (
        "select spent_cost, reserved_cost, spent_tokens, reserved_tokens from agent.budget_overview"
    )
    await run_all(
        conn,
        "insert into agent.budget (name, max_cost, max_tokens, on_exceeded)"
        " values ('b', 10, 1000, 'warn')",
    )
    async with asker(conn, dsn) as own:
        held = (await ask(own)).claim
        with pytest.raises(psycopg.errors.CheckViolation):
            await reserve(own, held, tokens, cost)
        assert await reserve(own, held, 50) is None
        step = NewStep(0, StepKind.REPLY, {}, Usage(tokens), cost)
        with pytest.raises(psycopg.errors.CheckViolation):
            await runs.record_step(own, held, step, reserved=True)
        assert await rows(conn, left) == [(0, 0, 0, 50)]


LEASE_LEFT = "select lease_expires_at < now() + interval '3 minutes' from agent.run where id = %s"


async def test_a_lease_of_a_question_is_short_and_ends_with_a_cancellation(
    conn: AsyncConnection, dsn: str
) -> None:
    """So that nobody keeps a reservation for longer than a process can be gone."""
    async with asker(conn, dsn) as own:
        held = (await ask(own)).claim
        await own.execute(
            "select agent_internal.heartbeat('w', %s, %s, '100 years')",
            [[held.run_id], [held.lease]],
        )
        assert await value(conn, LEASE_LEFT, held.run_id)
        await run_all(own, "select agent_internal.ask('t', 'x', '{}')")
        await own.execute(
            "select from agent_internal.claim_runs('w', 1, '100 years', '{question}',"
            " (select queue_id from agent_internal.resume_session('t')))"
        )
        assert await column(
            conn,
            "select lease_expires_at < now() + interval '3 minutes' from agent.run"
            " where state = 'running'",
        ) == [True, True]
        await value(conn, "select agent.cancel(%s)", held.run_id)
        before = await one_run(conn, "lease_expires_at", held.run_id)
        await own.execute(
            "select agent_internal.heartbeat('w', %s, %s, '1 minute')",
            [[held.run_id], [held.lease]],
        )
        assert await one_run(conn, "lease_expires_at", held.run_id) == before


BUDGET = """
insert into agent.budget (name, max_tokens, max_cost) values ('all', 1000000000, 1000000)
"""
USE = """
select spent_tokens, spent_cost, reserved_tokens, reserved_cost from agent_internal.budget_use
"""


@pytest.mark.parametrize(
    ("tokens", "cost", "limit"),
    [
        (1_000_001, 1.0, "max_tokens_per_question"),
        (10, 10.01, "max_cost_per_question"),
        (1_000_001, None, "max_tokens_per_question"),
    ],
)
async def test_one_question_cannot_reserve_a_whole_budget(
    conn: AsyncConnection, dsn: str, tokens: int, cost: float | None, limit: str
) -> None:
    """It is refused for good, with what is left, and nothing stays reserved."""
    await run_all(conn, BUDGET)
    if cost is None:
        await run_all(conn, "update agent.budget set max_cost = null")
    async with asker(conn, dsn) as own:
        held = (await ask(own)).claim
        refusal = await reserve(own, held, tokens, cost)
        assert refusal is not None
        assert refusal.wait is None
        assert limit in refusal.reason
        assert (refusal.left_cost, refusal.left_tokens) in {(10, None), (None, 1_000_000)}
        assert await rows(conn, USE) == [(0, 0, 0, 0)]
        assert await reserve(own, held, 1000, 1.0) is None
    assert await rows(conn, USE) == [(0, 0, 1000, 1)]


async def test_what_a_question_can_use_of_a_budget_is_for_all_of_its_calls(
    conn: AsyncConnection, dsn: str
) -> None:
    """Those in progress, and those that have ended; another question has its own limit."""
    await run_all(conn, BUDGET)
    async with asker(conn, dsn) as own:
        held, other = (await ask(own)).claim, (await ask(own, "t")).claim
        assert await reserve(own, held, 600_000, 6.0) is None
        assert await reserve(own, held, 300_000, 3.0, call=1) is None
        for tokens, cost in ((100_001, 1.0), (100_000, 1.01)):
            assert await reserve(own, held, tokens, cost, call=2) is not None
        step = NewStep(0, StepKind.REPLY, {}, Usage(600_000), 5.0)
        await runs.record_step(own, held, step, reserved=True)
        assert await reserve(own, held, 100_000, 2.01, call=2) is not None
        assert await reserve(own, held, 100_000, 2.0, call=2) is None
        assert await reserve(own, other, 1_000_000, 10.0) is None
        await run_all(
            conn,
            "update agent.budget"
            "   set max_cost_per_question = null, max_tokens_per_question = 2000000",
        )
        assert await reserve(own, held, 1_000_000, 1000.0, call=3) is None
        assert await reserve(own, held, 1, 1.0, call=4) is not None


async def test_a_login_that_asks_settles_no_more_than_it_has_reserved(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its figures are its own; with them it would exhaust a budget that it shares."""
    await run_all(conn, BUDGET)
    async with asker(conn, dsn) as own:
        held = (await ask(own)).claim
        assert await reserve(own, held, 1000, 1.0) is None
        step = NewStep(0, StepKind.REPLY, {}, Usage(2_000_000_000), 1e9)
        await runs.record_step(own, held, step, reserved=True)
    assert await rows(conn, USE) == [(1000, 1, 0, 0)]


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ("record_step({held}, 0, 'reply', '{{}}', '{{-5,0,0,0}}', 1, 1)", "23514"),
        ("record_step({held}, 0, 'reply', '{{}}', '{{5,0,0,0}}', 'NaN', 1)", "23514"),
        ("record_step({held}, 0, 'reply', '{{}}', '{{5,0,0,0}}', -1, 1)", "23514"),
        ("finish_run({held}, 'failed', null, null, -7, 0)", "23514"),
        ("finish_run({held}, 'failed', null, null, 7, 'infinity')", "23514"),
        ("park_run({held}, 'waiting_retry', '1 s', true, null, 0, 'NaN')", "23514"),
        ("park_run({held}, 'waiting_approval', null, true, null, 0, 0)", "42501"),
        ("park_run({held}, 'needs_review', null, true, null, 0, 0)", "42501"),
    ],
)
async def test_a_login_that_asks_cannot_store_what_is_no_figure_or_wait_for_a_person(
    conn: AsyncConnection, dsn: str, call: str, state: str
) -> None:
    """Its run stays as it is, and all invariants hold."""
    async with asker(conn, dsn) as own:
        held = (await ask(own)).claim
        given = call.format(held=f"{held.run_id}, {held.lease}")
        await refused(own, f"select agent_internal.{given}", state=state)
    assert await one_run(conn, "state::text, tokens, cost", held.run_id) == ("running", 0, None)
    assert await column(conn, "select rule from agent.broken_invariant") == []


async def test_a_role_that_was_set_counts_and_not_the_login(conn: AsyncConnection) -> None:
    """A worker that logs in as somebody else and sets the runner's role is a worker."""
    call = "select * from agent_internal.claim_runs('w', 1, '1 minute')"
    async with role(conn) as runner, role(conn) as asks:
        await value(conn, "select agent.grant_runner(%s)", runner)
        await value(conn, "select agent.grant_asker(%s)", asks)
        async with as_role(conn, runner):
            assert await rows(conn, call) == []
        async with as_role(conn, asks):
            await refused(conn, call, state="42501")


async def test_calls_side_by_side_are_settled_each_by_its_number(conn: AsyncConnection) -> None:
    """In any order, under any step; a number may be used again under the next lease."""
    left = "select reserved_tokens, spent_tokens from agent.budget_overview"
    await run_all(conn, "insert into agent.budget (name, max_tokens) values ('b', 1000)")
    held = (await ask(conn)).claim
    for number in (0, 1, 2):
        assert await reserve(conn, held, 100, call=number) is None
    assert await rows(conn, left) == [(300, 0)]
    assert await reserve(conn, held, 150, call=1) is None, "the same call once more"
    assert await rows(conn, left) == [(350, 0)]
    for seq, number in enumerate((2, 0)):
        step = NewStep(seq, StepKind.REPLY, {}, Usage(10))
        await runs.record_step(conn, held, step, call=number)
    assert await rows(conn, left) == [(150, 20)]
    await set_clock(conn, "1 minute")
    resumed = await questions.resume_session(conn, "s")
    assert resumed is not None
    again = await questions.claim_question(conn, resumed, "there", LEASE)
    assert again is not None
    assert await reserve(conn, again.claim, 100, call=2) is None, "settled under the first lease"
    assert await rows(conn, left) == [(100, 20)]
    refusal = {"budget": "b", "version": 1, "reason": "full", "wait": 60}
    await budgets.wait_for_budget(conn, again.claim, refusal, NOTHING)
    assert await rows(conn, left) == [(0, 20)]
    assert await rows(conn, "select * from agent.broken_invariant") == []


# Many ends in one statement.


async def test_many_runs_end_in_one_statement(conn: AsyncConnection) -> None:
    """Each with its last step, its result and its cost; who waited goes free."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), "a", "a", "b", "c")
    first, second, third = await claim(conn)
    assert await column(conn, "select id from agent.run where blocked_by is not null") == [2]
    ends = [
        Record(first, RunState.SUCCEEDED, runs.Spent(110, 0.25), "done", last=REPLY),
        Record(second, RunState.FAILED, NOTHING, error={"reason": "no"}),
        Record(third, RunState.SUCCEEDED, NOTHING, "a \0 and \ud800", last=REPLY),
    ]
    found = await runs.record_many(conn, ends)
    assert [(each.run_id, each.unblocked, each.failed) for each in found] == [
        (first.run_id, True, None),
        (second.run_id, False, None),
        (third.run_id, False, None),
    ]
    assert await rows(
        conn, "select state::text, tokens, cost::float8, error from agent.run order by id"
    ) == [
        ("succeeded", 110, 0.25, None),
        ("pending", 0, None, None),
        ("failed", 0, None, {"reason": "no"}),
        ("succeeded", 0, None, None),
    ]
    steps = "select run_id, seq, kind, input_tokens, output_tokens, cost::float8 from agent.step"
    assert await rows(conn, steps) == [
        (first.run_id, 0, "reply", 100, 10, 0.25),
        (third.run_id, 0, "reply", 100, 10, 0.25),
    ]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_steps_and_ends_are_recorded_together(conn: AsyncConnection) -> None:
    """A step alone leaves its run running; an expired lease is extended."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), *"abc")
    going, ending, overslept = await claim(conn)
    late = "update agent.run set lease_expires_at = now() - interval '1 minute' where id = %s"
    await conn.execute(late, [overslept.run_id])
    found = await runs.record_many(
        conn,
        [
            Record(going, None, NOTHING, last=REPLY),
            Record(ending, RunState.SUCCEEDED, NOTHING, last=REPLY),
            Record(overslept, None, NOTHING, last=REPLY),
        ],
    )
    assert [each.failed for each in found] == [None] * 3
    assert await rows(
        conn,
        "select r.state::text, r.lease_expires_at > now(), count(s) from agent.run r"
        " join agent.step s on s.run_id = r.id group by r.id, r.tenant order by r.id",
    ) == [("running", True, 1), ("succeeded", None, 1), ("running", True, 1)]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_run_cannot_occur_twice_in_one_statement(conn: AsyncConnection) -> None:
    """The second record would be lost."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), "a")
    (held,) = await claim(conn)
    twice = [Record(held, None, NOTHING, last=NewStep(n, StepKind.NOTE, {})) for n in range(2)]
    with pytest.raises(psycopg.Error) as caught:
        await runs.record_many(conn, twice)
    assert caught.value.sqlstate == "22023"
    assert await column(conn, "select seq from agent.step") == []


async def test_an_end_that_fails_does_not_keep_the_others_from_it(conn: AsyncConnection) -> None:
    """Its run stays as it was, and the outcome has the SQLSTATE that `record` raises."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), *"abcdef")
    fine, lost, cancelled, taken, behind, late = await claim(conn)
    await run_all(conn, f"update agent.run set lease = 7 where id = {lost.run_id}")
    await value(conn, "select agent.cancel(%s)", cancelled.run_id)
    await value(conn, "select agent.cancel(%s)", late.run_id)
    await runs.record_step(conn, taken, REPLY)
    ends = [
        Record(fine, RunState.SUCCEEDED, NOTHING, last=REPLY),
        Record(lost, RunState.SUCCEEDED, NOTHING, last=REPLY),
        Record(cancelled, RunState.FAILED, NOTHING, last=REPLY),
        Record(taken, RunState.SUCCEEDED, NOTHING, last=REPLY),
        Record(behind, RunState.SUCCEEDED, NOTHING, last=NewStep(3, StepKind.REPLY, {})),
        Record(late, RunState.SUCCEEDED, NOTHING, last=REPLY),
    ]
    found = [each.failed for each in await runs.record_many(conn, ends)]
    assert found == [None, "WA001", "WA002", "WA004", "WA001", None]
    states = "select state::text from agent.run order by id"
    assert await column(conn, states) == ["succeeded", *["running"] * 4, "succeeded"]
    for end, failed in zip(ends, found, strict=True):
        if failed is not None:
            with pytest.raises(psycopg.Error) as caught:
                await runs.record(conn, end)
            assert caught.value.sqlstate == failed


async def test_a_call_that_no_budget_counts_writes_nothing(conn: AsyncConnection, dsn: str) -> None:
    """It would cost a commit; a run that is lost, or to be cancelled, is refused nevertheless."""
    async with asker(conn, dsn) as own:
        held = (await ask(own)).claim
        async with own.transaction():
            assert await reserve(own, held, 50, 1.0) is None
            assert await value(own, "select pg_current_xact_id_if_assigned()") is None
        with pytest.raises(psycopg.Error) as caught:
            await reserve(own, replace(held, lease=held.lease + 1), 50)
        assert caught.value.sqlstate == "WA001"
        await value(conn, "select agent.cancel(%s)", held.run_id)
        with pytest.raises(psycopg.Error) as caught:
            await reserve(own, held, 50)
        assert caught.value.sqlstate == "WA002"
