"""Budgets: what is reserved, settled, refused and given back, and what becomes of the runs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection, Connection

from tests.faults.rig.waiting import until_true
from tests.helpers import build
from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    message_of,
    refused,
    role,
    rows,
    run_all,
    session,
    until,
    value,
)
from tests.helpers.queue import NOTHING, add_runs, claim, finish, one_run, set_clock
from tests.integration.cli.user import AGENTS, User
from tests.integration.cli.user import DESK as CLI_DESK
from walagent.doctor.budgets import check_budgets
from walagent.domain.agent_spec import AgentSpec, Authority
from walagent.domain.run import Claim, RunSpec, RunState, StepKind
from walagent.message import Json, ModelSpec, Usage
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store import budgets, claiming, runs
from walagent.store.budgets import Refusal, WorstCase
from walagent.store.runs import NewStep, Spent

SUPPORT = AgentSpec("support_tickets", "fake")
LEFT = "select spent_cost, reserved_cost, spent_tokens, reserved_tokens from agent.budget_overview"
PRICED = ModelSpec(
    "fake", "scripted", "fake", max_output_tokens=100, input_price=10.0, output_price=50.0
)
REPLY_COSTS = Decimal("0.0015")  # 100 tokens in and 10 out


async def held(conn: AsyncConnection, count: int = 1) -> list[Claim]:
    """Runs in our hands."""
    if not await value(conn, "select to_regclass('support_tickets') is not null"):
        await run_all(conn, DESK)
        await attach(conn, "tools=[refund_user]")
    attached = await value(conn, "select id from agent.attachment")
    await add_runs(conn, attached, *[None] * count)
    return await claim(conn)


async def make_budget(conn: AsyncConnection, name: str = "all", **columns: Json) -> None:
    """A budget; by default of one dollar a day, for everything."""
    columns = {"period": "day", "max_cost": 1} | columns
    names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
    await conn.execute(
        f"insert into agent.budget (name, {names}) values (%s, {marks})".encode(),
        [name, *columns.values()],
    )


def spec_of(run: Claim) -> RunSpec:
    """A run of the support desk's agent."""
    return RunSpec(run, SUPPORT, Authority("app"), source="support_tickets")


RUN = spec_of(build.claim())


async def reserve(
    conn: AsyncConnection, run: Claim, cost: float | None, tokens: int = 100, seq: int = 0
) -> Refusal | None:
    """Reserve as a worker does."""
    worst = WorstCase("fake", tokens, None if cost is None else Decimal(str(cost)))
    return await budgets.reserve(conn, spec_of(run), seq, worst)


async def reply(
    conn: AsyncConnection, run: Claim, cost: float | None, tokens: int = 15, seq: int = 0
) -> None:
    """Record a reply as a worker does."""
    usage = Usage(tokens - 5, output_tokens=5) if tokens else Usage()
    step = NewStep(seq, StepKind.REPLY, {"parts": []}, usage, cost)
    await runs.record_step(conn, run, step, reserved=True)


async def spend(conn: AsyncConnection, cost: float, tokens: int = 15) -> None:
    """Let a run spend this much."""
    (run,) = await held(conn)
    assert await reserve(conn, run, cost, tokens) is None
    await reply(conn, run, cost, tokens)
    await finish(conn, run)


# Reserving and settling.


async def test_what_a_reply_cost_takes_the_place_of_what_was_reserved(
    conn: AsyncConnection,
) -> None:
    """In the statement that records it."""
    (run,) = await held(conn)
    await make_budget(conn)
    assert await reserve(conn, run, 0.6) is None
    assert await rows(conn, LEFT) == [(0, Decimal("0.6"), 0, 100)]
    await reply(conn, run, 0.25)
    assert await rows(conn, LEFT) == [(Decimal("0.25"), 0, 15, 0)]
    kept = (
        "select call, lease, model, reserved_cost, cost, tokens, settled_at is null"
        "  from agent.spend"
    )
    assert await rows(conn, kept) == [(0, 1, "fake", Decimal("0.6"), Decimal("0.25"), 15, False)]


async def test_the_last_reply_is_settled_with_the_end(conn: AsyncConnection) -> None:
    """Also in one statement."""
    (run,) = await held(conn)
    await make_budget(conn)
    await reserve(conn, run, 0.6)
    step = NewStep(0, StepKind.REPLY, {"parts": []}, Usage(10, output_tokens=5), 0.25)
    await runs.finish_run(
        conn,
        run,
        RunState.SUCCEEDED,
        result="done",
        error=None,
        spent=NOTHING,
        last=step,
        reserved=True,
    )
    assert await rows(conn, LEFT) == [(Decimal("0.25"), 0, 15, 0)]


async def test_what_is_reserved_counts_as_spent_until_it_is_settled(conn: AsyncConnection) -> None:
    """The second of two calls that together might pass the limit is not made."""
    first, second = await held(conn, 2)
    await make_budget(conn)
    assert await reserve(conn, first, 0.6) is None
    crowded = await reserve(conn, second, 0.6)
    assert crowded is not None
    assert crowded.wait is not None
    assert 1 <= crowded.wait <= 3, "the first may be over within seconds"
    assert crowded.reason == (
        'budget "all": 0 of 1 US dollars spent, 0.6 reserved by calls in progress, '
        "next call needs up to 0.6"
    )
    await reply(conn, first, 0.1)
    assert await reserve(conn, second, 0.6) is None


async def test_a_limit_may_be_reached_and_not_passed(conn: AsyncConnection) -> None:
    """To the last digit."""
    (run,) = await held(conn)
    await make_budget(conn, max_cost=Decimal("0.3"))
    assert await reserve(conn, run, 0.300001) is not None
    assert await reserve(conn, run, 0.3) is None


async def test_either_all_budgets_reserve_or_none(conn: AsyncConnection) -> None:
    """One that refuses leaves nothing behind in the others."""
    (run,) = await held(conn)
    await make_budget(conn, "wide", max_cost=10)
    await make_budget(conn, "narrow", max_cost=1)
    refusal = await reserve(conn, run, 2)
    assert refusal is not None
    assert refusal.budget == "narrow"
    assert await column(conn, "select reserved_cost from agent_internal.budget_use") == [0, 0]
    assert await value(conn, "select count(*) from agent.spend") == 0


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        ({}, True),
        ({"agent": "support_tickets"}, True),
        ({"attachment": "support_tickets"}, True),
        ({"model": "fake"}, True),
        ({"agent": "support_tickets", "model": "fake"}, True),
        ({"model": "gpt-5"}, False),
        ({"agent": "support_tickets", "model": "gpt-5"}, False),
    ],
)
async def test_a_budget_counts_what_fits_all_that_it_names(
    conn: AsyncConnection,
    scope: dict[str, str],
    counts: bool,  # noqa: FBT001
) -> None:
    """In SQL and in the worker, which asks only where something counts."""
    (run,) = await held(conn)
    await make_budget(conn, **scope)
    assert await reserve(conn, run, 0.5) is None
    assert await value(conn, "select reserved_cost > 0 from agent_internal.budget_use") is counts
    (known,) = await budgets.load_scopes(conn)
    assert known.includes(spec_of(run), "fake") is counts


async def test_tokens_are_limited_without_prices(conn: AsyncConnection) -> None:
    """Nobody needs to know what they cost."""
    first, second = await held(conn, 2)
    await make_budget(conn, max_cost=None, max_tokens=150)
    assert await reserve(conn, first, None, 100) is None
    refusal = await reserve(conn, second, None, 100)
    assert refusal is not None
    assert "0 of 150 tokens spent, 100 reserved" in refusal.reason
    await reply(conn, first, None, 15)
    assert await rows(conn, LEFT) == [(0, 0, 15, 0)]


async def test_what_a_server_does_not_count_counts_as_reserved(conn: AsyncConnection) -> None:
    """Unknown is not zero."""
    (run,) = await held(conn)
    await make_budget(conn, max_tokens=1000)
    await reserve(conn, run, 0.6, 100)
    await reply(conn, run, None, 0)
    assert await rows(conn, LEFT) == [(Decimal("0.6"), 0, 100, 0)]


async def test_a_reply_that_is_there_already_is_settled_once(conn: AsyncConnection) -> None:
    """What is refused as a step counts for nothing."""
    (run,) = await held(conn)
    await make_budget(conn)
    await reserve(conn, run, 0.6)
    await reply(conn, run, 0.25)
    with pytest.raises(psycopg.Error, match="already exists"):
        await reply(conn, run, 0.25)
    assert await rows(conn, LEFT) == [(Decimal("0.25"), 0, 15, 0)]


# What is refused.


@pytest.mark.parametrize(
    ("period", "seconds"), [("day", "1 day"), ("month", "1 month"), ("total", None)]
)
async def test_a_budget_that_is_used_up_says_until_when(
    conn: AsyncConnection, period: str, seconds: str | None
) -> None:
    """By the database's clock, in UTC."""
    await run_all(conn, "set time zone 'Asia/Tokyo'")
    await held(conn)
    await make_budget(conn, period=period)
    await spend(conn, 0.9)
    (run,) = await held(conn)
    refusal = await reserve(conn, run, 0.2)
    assert refusal is not None
    assert refusal.wait is not None
    assert refusal.reason.startswith(
        'budget "all" exhausted: 0.9 of 1 US dollars spent, next call needs up to 0.2; '
    )
    if seconds is None:
        assert refusal.reason.endswith("it does not reset")
        assert refusal.wait == 86400
        return
    resets = await value(
        conn,
        "select (date_trunc(%s, now() at time zone 'UTC') + %s::interval) at time zone 'UTC'",
        period,
        seconds,
    )
    left = await value(conn, "select extract(epoch from %s - now())::float8", resets)
    assert refusal.wait == pytest.approx(left, abs=5)
    assert await value(conn, "select resets_at from agent.budget_overview") == resets


@pytest.mark.parametrize(
    ("columns", "cost", "said"),
    [
        ({"on_exceeded": "fail"}, 0.2, "exhausted"),
        ({}, 1.5, 'one call needs up to 1.5 US dollars, more than all of budget "all" (1)'),
        ({"max_tokens": 50}, 0.01, "one call needs up to 100 tokens, more than all"),
    ],
)
async def test_what_waiting_does_not_help_says_so(
    conn: AsyncConnection, columns: dict[str, Json], cost: float | None, said: str
) -> None:
    """The run fails."""
    await held(conn)
    await make_budget(conn, "all", **columns)
    if "max_tokens" not in columns:
        await spend(conn, 0.9)
    (run,) = await held(conn)
    refusal = await reserve(conn, run, cost)
    assert refusal is not None
    assert refusal.wait is None
    assert said in refusal.reason


async def test_a_run_whose_model_has_no_price_waits_for_one(conn: AsyncConnection) -> None:
    """It says so, and a price wakes it: that is the operator's to mend, and no fault of the run."""
    await held(conn)
    await make_budget(conn, on_exceeded="fail")
    (run,) = await held(conn)
    refusal = await reserve(conn, run, None)
    assert refusal is not None
    assert refusal.wait is not None
    assert 'model "fake" has no price' in refusal.reason
    await budgets.wait_for_budget(conn, run, refusal.raw, Spent(0, None))
    due = "select state, next_attempt_at <= agent_internal.now() from agent.run order by id"
    assert ("waiting_retry", False) in await rows(conn, due)
    await run_all(
        conn, "update agent.model set input_price = 1, output_price = 1 where name = 'fake'"
    )
    assert ("waiting_retry", True) in await rows(conn, due)


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ({}, (Decimal("0.1"), None)),
        ({"on_exceeded": "fail"}, (Decimal("0.1"), None)),
        ({"max_cost": None, "max_tokens": 90}, (None, 75)),
    ],
)
async def test_a_refusal_says_what_is_left(
    conn: AsyncConnection, columns: dict[str, Json], left: tuple[Decimal | None, int | None]
) -> None:
    """So that the call can be made smaller."""
    await held(conn)
    await make_budget(conn, "all", **columns)
    await spend(conn, 0.9)
    (run,) = await held(conn)
    refusal = await reserve(conn, run, 0.5)
    assert refusal is not None
    assert (refusal.left_cost, refusal.left_tokens) == left
    assert not {"left_cost", "left_tokens"} & refusal.raw.keys()


async def test_calls_in_progress_are_waited_for(conn: AsyncConnection) -> None:
    """What they hold is released within seconds: no smaller call is made instead."""
    first, second = await held(conn, 2)
    await make_budget(conn)
    assert await reserve(conn, first, 0.9) is None
    refusal = await reserve(conn, second, 0.5)
    assert refusal is not None
    assert (refusal.left_cost, refusal.left_tokens) == (None, None)


async def test_a_call_is_made_with_what_a_budget_has_left(conn: AsyncConnection, dsn: str) -> None:
    """The output limit is lowered: 10,000 tokens at 50 dollars a million are half a dollar."""
    await run_all(conn, DESK)
    await attach(conn, "max_output_tokens=10000")
    spec = replace(PRICED, max_output_tokens=10_000, context_window=2_000)
    model = ScriptedModel(["Done."], spec=spec)
    await make_budget(conn, max_cost=Decimal("0.1"), on_exceeded="fail")
    async with daemon(conn, dsn, {"fake": model}) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        ((_, state, _, _),) = await d.ended()
    assert state == "succeeded"
    assert [request.max_tokens for request in model.requests] == [1_600]
    assert await value(conn, "select reserved_cost from agent.spend") == Decimal("0.1")


async def test_a_call_that_fits_a_fresh_budget_waits_for_it(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its output limit is more than all of the budget; with 256 tokens it is not."""
    await run_all(conn, DESK)
    await attach(conn, "max_output_tokens=10000")
    spec = replace(PRICED, max_output_tokens=10_000, context_window=2_000)
    model = ScriptedModel(["Done."], spec=spec)
    await make_budget(conn, max_cost=None, max_tokens=5000)
    await run_all(conn, "update agent_internal.budget_use set spent_tokens = 4000")
    async with daemon(conn, dsn, {"fake": model}) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.until("select exists (select from agent.run where state = 'waiting_retry')")
        reason = await value(conn, "select error ->> 'reason' from agent.run")
        assert 'budget "all" exhausted: 4000 of 5000 tokens spent' in str(reason)
        await run_all(conn, "update agent_internal.budget_use set spent_tokens = 0")
        await run_all(conn, "update agent.budget set max_tokens = 5001")
        ((_, state, _, _),) = await d.ended()
    assert state == "succeeded"
    assert [request.max_tokens for request in model.requests] == [3_001]


async def test_a_budget_that_only_warns_counts_and_refuses_nothing(conn: AsyncConnection) -> None:
    """Also beyond its limit, and where nobody knows the price."""
    await held(conn)
    await make_budget(conn, on_exceeded="warn")
    await spend(conn, 0.9)
    await spend(conn, 1.5)
    (run,) = await held(conn)
    assert await reserve(conn, run, None) is None
    assert await value(conn, "select spent_cost from agent.budget_overview") == Decimal("2.4")


async def test_of_several_refusals_the_one_that_lasts_is_reported(conn: AsyncConnection) -> None:
    """Nothing is gained by waiting for the other."""
    await held(conn)
    await make_budget(conn, "a day")
    await make_budget(conn, "a month", period="month")
    await spend(conn, 0.9)
    (run,) = await held(conn)
    refusal = await reserve(conn, run, 0.5)
    assert refusal is not None
    assert refusal.budget == "a month"
    await make_budget(conn, "small", max_cost=0.1)
    refusal = await reserve(conn, run, 0.5)
    assert refusal is not None
    assert refusal.budget == "small"


async def test_nothing_is_spent_on_a_run_that_is_to_be_cancelled(conn: AsyncConnection) -> None:
    """Nor on one that another worker has."""
    first, second = await held(conn, 2)
    await make_budget(conn)
    await value(conn, "select agent.cancel(%s)", first.run_id)
    await set_clock(conn, "1 hour")
    await claiming.tick(conn)
    for run in (first, second):
        with pytest.raises(psycopg.Error, match="no longer held"):
            await reserve(conn, run, 0.1)
    (third,) = await claim(conn, worker="w2")
    await value(conn, "select agent.cancel(%s)", third.run_id)
    with pytest.raises(psycopg.Error, match="cancellation of run"):
        await reserve(conn, third, 0.1)


# Periods.


async def test_a_new_period_begins_at_zero(conn: AsyncConnection) -> None:
    """With what calls of the old one still hold, which counts when it is settled."""
    (late,) = await held(conn)
    await make_budget(conn)
    await spend(conn, 0.4)
    await reserve(conn, late, 0.5)
    await set_clock(conn, "1 day")
    assert await rows(conn, LEFT) == [(0, Decimal("0.5"), 0, 100)]
    (run,) = await held(conn)
    assert await reserve(conn, run, 0.6) is not None, "0.5 may still come"
    await reply(conn, late, 0.1)
    assert await rows(conn, LEFT) == [(Decimal("0.1"), 0, 15, 0)]
    assert await reserve(conn, run, 0.9) is None


async def test_a_settlement_alone_begins_a_period(conn: AsyncConnection) -> None:
    """Nobody needs to reserve first."""
    (late,) = await held(conn)
    await make_budget(conn)
    await spend(conn, 0.4)
    await reserve(conn, late, 0.5)
    await set_clock(conn, "1 day")
    await reply(conn, late, 0.2)
    assert await rows(conn, LEFT) == [(Decimal("0.2"), 0, 15, 0)]


async def test_a_clock_that_is_set_back_starts_nothing_again(conn: AsyncConnection) -> None:
    """What is spent stays spent."""
    await held(conn)
    await set_clock(conn, "2 days")
    await make_budget(conn)
    await spend(conn, 0.9)
    await set_clock(conn, "0")
    (run,) = await held(conn)
    assert await reserve(conn, run, 0.2) is not None


# What is given back.


async def test_a_call_that_failed_gives_back_what_it_reserved(conn: AsyncConnection) -> None:
    """With the statement that says how its run goes on."""
    first, second = await held(conn, 2)
    await make_budget(conn, max_cost=2)
    await reserve(conn, first, 0.5)
    await reserve(conn, second, 0.5)
    await runs.park_run(conn, first, RunState.WAITING_RETRY, spent=NOTHING, reserved=True)
    assert await value(conn, "select reserved_cost from agent_internal.budget_use") == Decimal(
        "0.5"
    )
    await runs.finish_run(
        conn, second, RunState.FAILED, result=None, error=None, spent=NOTHING, reserved=True
    )
    assert await value(conn, "select reserved_cost from agent_internal.budget_use") == 0
    assert await value(conn, "select count(*) from agent.spend") == 0


async def test_what_a_dead_worker_reserved_is_given_back_with_its_lease(
    conn: AsyncConnection,
) -> None:
    """Not before: until then it may be answered."""
    await held(conn)
    await make_budget(conn)
    (run,) = await held(conn)
    await reserve(conn, run, 0.5)
    await claiming.tick(conn)
    assert await value(conn, "select reserved_cost from agent_internal.budget_use") == Decimal(
        "0.5"
    )
    await set_clock(conn, "1 minute")
    await claiming.tick(conn)
    assert await rows(conn, LEFT) == [(0, 0, 0, 0)]


async def test_the_next_attempt_gives_back_what_the_last_one_reserved(
    conn: AsyncConnection,
) -> None:
    """It does not stand in its own way."""
    (run,) = await held(conn)
    await make_budget(conn)
    await reserve(conn, run, 0.9)
    await runs.park_run(conn, run, RunState.PENDING, spent=NOTHING)
    (again,) = await claim(conn, worker="w2")
    assert again.lease == run.lease + 1
    assert await reserve(conn, again, 0.8) is None
    assert await rows(conn, LEFT) == [(0, Decimal("0.8"), 0, 100)]


async def test_a_worker_that_leaves_gives_back_what_it_reserved(conn: AsyncConnection) -> None:
    """With its runs."""
    (run,) = await held(conn)
    await make_budget(conn)
    await reserve(conn, run, 0.9)
    await claiming.release_runs(conn, "w1")
    assert await rows(conn, LEFT) == [(0, 0, 0, 0)]


async def test_pruned_runs_stay_counted(conn: AsyncConnection) -> None:
    """Their rows of agent.spend go."""
    await held(conn)
    await make_budget(conn)
    await spend(conn, 0.4)
    await set_clock(conn, "1 minute")
    await value(conn, "select agent.prune('1 second')")
    assert await value(conn, "select count(*) from agent.spend") == 0
    assert await value(conn, "select spent_cost from agent.budget_overview") == Decimal("0.4")


# Whoever changes budgets stops nobody.


@pytest.mark.parametrize(
    "change", ["update agent.budget set max_cost = 2", "delete from agent.budget"]
)
async def test_an_open_change_of_a_budget_stops_no_call(
    conn: AsyncConnection, dsn: str, change: str
) -> None:
    """Calls go on under the budget as it was."""
    (run,) = await held(conn)
    await make_budget(conn)
    async with session(dsn) as person:
        await run_all(person, f"begin; {change}")
        await run_all(conn, "set lock_timeout = '2s'")
        assert await reserve(conn, run, 0.5) is None
        await reply(conn, run, 0.1)
        assert await reserve(conn, run, 1.5, seq=1) is not None
        await claiming.tick(conn)
        await run_all(person, "commit")
    assert await value(conn, "select count(*) from agent.broken_invariant") == 0


async def test_the_clockwork_waits_for_no_budget(conn: AsyncConnection, dsn: str) -> None:
    """It holds ordering keys; what it could not give back, it gives back the next time."""
    (run,) = await held(conn)
    await make_budget(conn)
    await reserve(conn, run, 0.5)
    await set_clock(conn, "1 minute")
    async with session(dsn) as other:
        await run_all(other, "begin; select from agent_internal.budget_use for no key update")
        await run_all(conn, "set lock_timeout = '2s'")
        await claiming.tick(conn)
        await run_all(other, "rollback")
    assert await value(conn, "select reserved_cost from agent_internal.budget_use") == Decimal(
        "0.5"
    )
    await claiming.tick(conn)
    assert await value(conn, "select reserved_cost from agent_internal.budget_use") == 0


async def waiting(conn: AsyncConnection) -> tuple[Claim, Refusal]:
    """A run whose call a used-up budget has refused, and which does not wait yet."""
    await held(conn)
    await make_budget(conn)
    await spend(conn, 0.9)
    (run,) = await held(conn)
    refusal = await reserve(conn, run, 0.5)
    assert refusal is not None
    return run, refusal


IS_DUE = "next_attempt_at <= agent_internal.now()"


async def test_a_run_waits_for_its_budget_without_using_an_attempt(conn: AsyncConnection) -> None:
    """With the reason, until the period ends."""
    run, refusal = await waiting(conn)
    await budgets.wait_for_budget(conn, run, refusal.raw, NOTHING)
    state, attempt, error = await one_run(conn, "state::text, attempt, error", run.run_id)
    assert (state, attempt) == ("waiting_retry", 0)
    assert error == {"budget": "all", "reason": refusal.reason}
    at = (
        "next_attempt_at - agent_internal.period_end('day', agent_internal.now()) between '-1"
        " s' and '1 s'"
    )
    assert await one_run(conn, at, run.run_id) == (True,)
    assert await value(conn, "select waiting from agent.budget_overview") == 1


@pytest.mark.parametrize(
    "change",
    [
        "update agent.budget set max_cost = 2",
        "update agent.budget set name = 'other'",
        "delete from agent.budget",
    ],
)
async def test_a_changed_budget_wakes_who_waits_for_it(conn: AsyncConnection, change: str) -> None:
    """Whether it begins to wait before the change is made or after."""
    run, refusal = await waiting(conn)
    await budgets.wait_for_budget(conn, run, refusal.raw, NOTHING)
    assert await one_run(conn, IS_DUE, run.run_id) == (False,)
    await run_all(conn, change)
    assert await one_run(conn, IS_DUE, run.run_id) == (True,)


async def test_a_run_that_began_to_wait_too_late_does_not_wait(conn: AsyncConnection) -> None:
    """The budget was raised between its refusal and its waiting."""
    run, refusal = await waiting(conn)
    await run_all(conn, "update agent.budget set max_cost = 2")
    await budgets.wait_for_budget(conn, run, refusal.raw, NOTHING)
    assert await one_run(conn, IS_DUE, run.run_id) == (True,)


async def test_a_run_that_begins_to_wait_while_its_budget_changes_is_woken(
    conn: AsyncConnection, dsn: str
) -> None:
    """Neither sees the other's row, so one of them waits for the other."""
    run, refusal = await waiting(conn)
    async with session(dsn) as person:
        await run_all(conn, "begin")
        await budgets.wait_for_budget(conn, run, refusal.raw, NOTHING)
        change = asyncio.create_task(run_all(person, "update agent.budget set max_cost = 2"))
        async with session(dsn) as look:
            await until(look, "select exists (select from pg_locks where not granted)")
        await run_all(conn, "commit")
        await change
    assert await one_run(conn, IS_DUE, run.run_id) == (True,)


# Who may, and what is checked.


async def test_a_budget_of_what_is_not_there_is_refused(conn: AsyncConnection) -> None:
    """It would limit nothing, without a word."""
    await held(conn)
    for what, word, meant in (
        ("agent", "suport_tickets", "support_tickets"),
        ("attachment", "support_ticket", "support_tickets"),
        ("model", "gpt5", "gpt-5"),
    ):
        error = await refused(
            conn,
            f"insert into agent.budget (name, max_cost, {what}) values ('b', 1, %s)",
            word,
            state="WA015",
        )
        assert f'budget "b": {what} "{word}" does not exist' in message_of(error)
        assert meant in message_of(error)


@pytest.mark.parametrize(
    "columns",
    [
        "max_cost = null",
        "max_cost = 0",
        "max_cost = 'NaN'",
        "max_cost = 'infinity'",
        "max_tokens = -1",
        "period = 'week'",
        "on_exceeded = 'cry'",
        "name = ''",
    ],
)
async def test_a_budget_that_makes_no_sense_is_refused(conn: AsyncConnection, columns: str) -> None:
    """By the table itself."""
    await make_budget(conn)
    await refused(conn, f"update agent.budget set {columns}", state="23514")


async def test_a_budget_that_cannot_be_kept_gives_a_warning(conn: AsyncConnection) -> None:
    """And whoever attaches a model without a price under one; in whichever order."""
    warned: list[str] = []
    conn.add_notice_handler(lambda diag: warned.append(diag.message_primary or ""))
    await run_all(conn, DESK)
    await run_all(conn, "update agent.model set input_price = null where name = 'fake'")
    await attach(conn, "")
    await make_budget(conn)
    said = (
        'model "fake" has no price: calls of attachment "support_tickets" exceed budget "all" '
        "in US dollars"
    )
    assert warned == [said]
    await run_all(conn, "create table other (id int primary key)")
    await attach(conn, "", table="other")
    assert len(warned) == 2
    await make_budget(conn, "tokens", max_cost=None, max_tokens=5)
    await make_budget(conn, "soft", on_exceeded="warn")
    assert len(warned) == 2


async def test_the_daemons_role_may_keep_budgets_and_not_change_them(conn: AsyncConnection) -> None:
    """agent.grant_runner is enough; a developer reads them."""
    (run,) = await held(conn)
    await make_budget(conn)
    async with role(conn) as runner, role(conn) as developer:
        await value(conn, "select agent.grant_runner(%s)", runner)
        await value(conn, "select agent.grant_developer(%s)", developer)
        async with as_role(conn, runner):
            assert await reserve(conn, run, 0.5) is None
            await reply(conn, run, 0.1)
            assert await reserve(conn, run, 0.5, seq=1) is None
            await runs.park_run(conn, run, RunState.WAITING_RETRY, spent=NOTHING, reserved=True)
            await claiming.tick(conn)
            assert len(await budgets.standings(conn)) == 1
            for statement in (
                "update agent.budget set max_cost = 5",
                "delete from agent.budget",
                "insert into agent.budget (name, max_cost) values ('b', 1)",
            ):
                await refused(conn, statement, state="42501")
        async with as_role(conn, developer):
            assert await value(conn, "select count(*) from agent.budget_overview") == 1
            await refused(conn, "update agent.budget set max_cost = 5", state="42501")


async def test_a_viewer_sees_what_is_left(conn: AsyncConnection) -> None:
    """And changes nothing."""
    await make_budget(conn)
    async with role(conn) as viewer:
        await value(conn, "select agent.grant_viewer(%s)", viewer)
        async with as_role(conn, viewer):
            assert len(await rows(conn, "select * from agent.budget_overview")) == 1
            assert await rows(conn, "select * from agent.spend, agent.unpriced") == []
            await refused(conn, "delete from agent.budget", state="42501")


async def test_counters_that_do_not_add_up_are_found(conn: AsyncConnection) -> None:
    """By `walagent wal check`."""
    (run,) = await held(conn)
    await make_budget(conn)
    await reserve(conn, run, 0.5)
    assert await rows(conn, "select * from agent.broken_invariant") == []
    await run_all(conn, "update agent_internal.budget_use set reserved_cost = 0.6")
    assert await column(conn, "select rule from agent.broken_invariant") == [
        "the reserved amount of a budget is not the sum of its reservations"
    ]


# In a worker.


async def test_a_run_that_waits_for_its_budget_goes_on_when_it_is_raised(
    conn: AsyncConnection, dsn: str
) -> None:
    """The model was not asked meanwhile."""
    await run_all(conn, DESK)
    await attach(conn, "tools=[refund_user]")
    model = ScriptedModel(["Done."], spec=PRICED)
    await make_budget(conn, max_cost=Decimal("0.0001"), on_exceeded="warn")
    async with daemon(conn, dsn, {"fake": model}) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.ended(1)
        await run_all(
            conn, "update agent.budget set on_exceeded = 'wait', max_cost = spent_cost + 0.05"
            " from agent_internal.budget_use"
        )  # fmt: skip
        await run_all(conn, "update agent_internal.budget_use set spent_cost = spent_cost + 0.049")
        await run_all(conn, "insert into support_tickets (issue) values ('two')")
        await d.until("select exists (select from agent.run where state = 'waiting_retry')")
        assert len(model.requests) == 1
        (waits,) = await rows(
            conn, "select attempt, error ->> 'budget', error ->> 'reason' from agent.run"
            " where state = 'waiting_retry'"
        )  # fmt: skip
        assert waits[:2] == (0, "all")
        assert "exhausted" in waits[2]
        await run_all(conn, "update agent.budget set max_cost = 10")
        assert [state for _, state, *_ in await d.ended(2)] == ["succeeded", "succeeded"]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_run_fails_where_its_budget_says_so(conn: AsyncConnection, dsn: str) -> None:
    """Its model is not asked."""
    await run_all(conn, DESK)
    await attach(conn, "")
    await make_budget(conn, max_cost=Decimal("0.0001"), on_exceeded="fail")
    model = ScriptedModel(["Done."], spec=PRICED)
    async with daemon(conn, dsn, {"fake": model}) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        ((_, state, _, error),) = await d.ended()
    assert state == "failed"
    assert 'more than all of budget "all"' in error
    assert len(model.requests) == 0


def known_here(d: Daemon, *, free: bool) -> Callable[[], Awaitable[bool]]:
    """Whether the worker knows a budget that counts; its heartbeat comes every ten seconds."""

    async def known() -> bool:
        return d.shop.budgets.count(RUN, "fake", free=free)

    return known


async def test_workers_hear_of_a_new_budget(conn: AsyncConnection, dsn: str) -> None:
    """Nobody restarts them."""
    await run_all(conn, DESK)
    await attach(conn, "tools=[refund_user]")
    replies = [call("refund_user", ticket_id=1), "Done."]
    async with daemon(conn, dsn, {"fake": ScriptedModel(replies, spec=PRICED)}) as d:
        await make_budget(conn)
        await until_true(known_here(d, free=False), "the worker has heard", seconds=5)
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.ended()
    assert await rows(conn, LEFT) == [(2 * REPLY_COSTS, 0, 220, 0)]
    assert await column(conn, "select cost from agent.spend order by call") == [REPLY_COSTS] * 2


async def test_a_free_model_uses_up_tokens_and_no_money(conn: AsyncConnection, dsn: str) -> None:
    """Where only money is limited, nobody is asked."""
    await run_all(conn, DESK)
    await attach(conn, "")
    free = ModelSpec("fake", "scripted", "fake", input_price=0, output_price=0)
    await make_budget(conn, "money")
    async with daemon(conn, dsn, {"fake": ScriptedModel(["Done."], spec=free)}) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.ended()
        assert await value(conn, "select count(*) from agent.spend") == 0
        await make_budget(conn, "tokens", max_cost=None, max_tokens=100_000)
        await until_true(known_here(d, free=True), "the worker has heard", seconds=5)
        await run_all(conn, "insert into support_tickets (issue) values ('two')")
        await d.ended(2)
    assert await rows(conn, "select cost, tokens from agent.spend") == [(0, 110)] * 2


@pytest.mark.slow
async def test_nothing_is_open_while_a_model_is_asked(conn: AsyncConnection, dsn: str) -> None:
    """The reservation is committed; anybody may change the budget's row."""
    await run_all(conn, DESK)
    await attach(conn, "")
    await make_budget(conn)
    model = ScriptedModel(["Done."], spec=PRICED, latency=1.0)
    async with daemon(conn, dsn, {"fake": model}) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.until("select exists (select from agent.spend where settled_at is null)")
        await run_all(
            # A tick can hold it for a moment; the model takes longer than this lock may.
            conn,
            "begin; set local lock_timeout = '250ms';"
            " select from agent_internal.budget_use for update; commit",
        )
        assert await value(
            conn, "select count(*) from pg_stat_activity where datname = current_database()"
            " and state like 'idle in transaction%'"
        ) == 0  # fmt: skip
        assert await value(conn, "select count(*) from agent.spend where settled_at is null") == 1
        await d.ended()


# The file and the command line.

BUDGETS = """
budgets:
  everything: {period: month, max_cost: 200}
  tickets: {agent: support, model: gpt-4o, period: day, max_tokens: 5000, on_exceeded: fail}
"""


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """Somebody with a support desk."""
    with psycopg.connect(dsn) as made:
        made.execute(CLI_DESK)
    return User(tmp_path, dsn)


@pytest.fixture
def db(user: User) -> Connection:  # pyright: ignore[reportInvalidTypeForm]
    """A hand in the database."""
    with psycopg.connect(user.dsn or "", autocommit=True) as made:
        yield made  # pyright: ignore[reportReturnType]


@pytest.mark.slow
def test_budgets_are_kept_in_the_file(user: User, db: Connection) -> None:
    """Made, left alone, changed, and removed with --prune; those made in SQL stay."""
    db.execute("insert into agent.budget (name, max_cost) values ('by hand', 1)")
    user.writes(AGENTS + BUDGETS)
    said = user.types("apply").worked().out
    assert said.endswith("+ budget everything\n+ budget tickets\n")
    assert user.types("apply").worked().out == ""
    user.writes(AGENTS + BUDGETS.replace("200", "300"))
    said = user.types("apply").worked().out
    assert said == "~ budget everything\n    max_cost: 200 → 300\n"
    user.writes(AGENTS)
    assert user.types("apply").worked().out == ""
    pruned = user.types("apply", "--prune").worked()
    assert pruned.out == "- budget everything\n- budget tickets\n"
    assert pruned.err == "2 removed\n"
    assert db.execute("select name from agent.budget").fetchall() == [("by hand",)]


def test_a_wrong_budget_is_reported_with_its_entry(user: User) -> None:
    """Before anything is written."""
    user.writes(AGENTS + "budgets: {b: {period: day}}\n")
    ended = user.types("apply")
    assert ended.code == 2
    assert "max_cost or max_tokens" in ended.err
    user.writes(AGENTS + "budgets: {b: {agent: suport, max_cost: 1}}\n")
    ended = user.types("apply")
    assert ended.code == 2
    assert 'budget "b": agent "suport" does not exist' in ended.err
    assert "support" in ended.err


def test_attaching_warns_of_a_budget_that_refuses_it(user: User, db: Connection) -> None:
    """On stderr, with what helps."""
    db.execute("insert into agent.budget (name, max_cost) values ('all', 1)")
    db.execute("update agent.model set input_price = null where name = 'gpt-4o'")
    said = (
        user.types("agents", "attach", "support_tickets", "model=gpt-4o, tools=[refund_user]")
        .worked()
        .err
    )
    assert 'warning: model "gpt-4o" has no price' in said
    assert "hint: Set input_price and output_price of the model" in said


def test_the_list_says_what_is_left(user: User, db: Connection) -> None:
    """For people only what there is, for programs all."""
    assert "no budgets" in user.types("agents", "budgets").worked().err
    user.writes(AGENTS + BUDGETS)
    user.types("apply").worked()
    db.execute("update agent_internal.budget_use set spent_cost = 150, reserved_cost = 2.5")
    everything, tickets = user.types("agents", "budgets", "--json").worked().json
    assert (everything["spent_cost"], everything["reserved_cost"]) == (150, 2.5)
    assert (tickets["agent"], tickets["model"], tickets["max_tokens"]) == (
        "support",
        "gpt-4o",
        5000,
    )
    assert everything["resets_at"] > "2026"
    head, first, _ = user.types("agents", "budgets").worked().out.splitlines()
    assert head.split() == [
        "name", "agent", "model", "period", "max_cost", "spent_cost", "reserved_cost", "max_tokens",
        "spent_tokens", "reserved_tokens", "on_exceeded", "waiting", "resets_at",
    ]  # fmt: skip
    assert "150" in first


async def examined(conn: AsyncConnection) -> list[str]:
    """What the doctor says of budgets."""
    findings = check_budgets(
        await budgets.standings(conn),
        await budgets.unpriced(conn),
        await budgets.orphaned_budgets(conn),
    )
    return [f"{each.level}: {each.text}" for each in findings]


async def test_the_doctor_looks_at_budgets(conn: AsyncConnection) -> None:
    """At those that are nearly spent, that cannot be kept, and that count nothing."""
    assert await examined(conn) == []
    await held(conn)
    await make_budget(conn)
    await make_budget(conn, "calls", agent="support_tickets", max_cost=None, max_tokens=1000)
    assert await examined(conn) == ["ok: 2 budgets are not exhausted"]
    await run_all(
        conn,
        "update agent_internal.budget_use set spent_cost = 0.97;"
        "update agent.model set input_price = null where name = 'fake';"
        "alter table agent.budget disable trigger check_budget;"
        "update agent.budget set agent = 'gone' where name = 'calls'",
    )
    until_midnight = await value(
        conn,
        "select to_char(agent_internal.period_end('day', now()) at time zone 'UTC',"
        " 'YYYY-MM-DD HH24:MI \"UTC\"')",
    )
    assert await examined(conn) == [
        "warning: model fake has no price, so budget all rejects the calls of support_tickets",
        "warning: budget calls counts nothing: agent gone does not exist",
        f"warning: budget all is 97% spent, until {until_midnight}",
    ]
