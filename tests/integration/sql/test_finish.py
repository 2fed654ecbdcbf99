"""How a run ends, and what is written down then."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, run_all, value
from tests.helpers.queue import NOTHING, add_runs, claim, finish, one_run
from walagent.domain.run import Claim, RunState, StepKind
from walagent.message import Usage
from walagent.store import runs
from walagent.store.runs import NewStep, Spent


async def held_run(conn: AsyncConnection) -> Claim:
    """A run in our hands."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), "a")
    (held,) = await claim(conn)
    return held


async def test_the_end_says_what_came_of_it_and_what_it_cost(conn: AsyncConnection) -> None:
    """Result, tokens, cost and time are on the run."""
    held = await held_run(conn)
    await runs.finish_run(
        conn, held, RunState.SUCCEEDED, result="Refunded.", error=None, spent=Spent(123, 0.000045)
    )
    found = await one_run(
        conn,
        "state::text, result, error, tokens, cost::text, lease_expires_at, finished_at is not null,"
        " cancel_requested",
        held.run_id,
    )
    assert found == ("succeeded", "Refunded.", None, 123, "0.000045", None, True, False)


async def test_the_last_step_and_the_end_are_one(conn: AsyncConnection) -> None:
    """The reply that ends a run is recorded with the end, its usage with it."""
    held = await held_run(conn)
    last = NewStep(0, StepKind.REPLY, {"parts": [], "stop": "end"}, Usage(1, 2, 3, 4), 0.25, 99)
    await finish(conn, held, last=last)
    found = await conn.execute(
        "select kind, input_tokens, cached_tokens, cache_write_tokens, output_tokens, cost,"
        " duration_ms from agent.step"
    )
    assert await found.fetchall() == [("reply", 1, 2, 3, 4, pytest.approx(0.25), 99)]
    assert await one_run(conn, "state::text", held.run_id) == ("succeeded",)


async def test_an_end_is_written_once(conn: AsyncConnection) -> None:
    """A worker that says it again is told that the run is not its own any more."""
    held = await held_run(conn)
    await finish(conn, held)
    with pytest.raises(Exception, match="no longer held") as caught:
        await finish(conn, held, RunState.FAILED)
    assert getattr(caught.value, "sqlstate", None) == "WA001"
    assert await one_run(conn, "state::text", held.run_id) == ("succeeded",)


async def test_work_that_was_done_before_the_cancellation_was_heard_of_counts(
    conn: AsyncConnection,
) -> None:
    """A run that has succeeded is not called cancelled."""
    held = await held_run(conn)
    await value(conn, "select agent.cancel(%s, 'too late')", held.run_id)
    await finish(conn, held)
    assert await one_run(conn, "state::text, error, cancel_requested", held.run_id) == (
        "succeeded",
        None,
        False,
    )


async def test_a_cancelled_run_keeps_the_reason_that_a_person_gave(conn: AsyncConnection) -> None:
    """The worker that lets it go knows no better one."""
    held = await held_run(conn)
    await value(conn, "select agent.cancel(%s, 'wrong customer')", held.run_id)
    await finish(conn, held, RunState.CANCELLED, error={"reason": "cancelled"})
    assert await one_run(conn, "state::text, error", held.run_id) == (
        "cancelled",
        {"reason": "wrong customer"},
    )


async def test_waiting_costs_no_attempt_where_it_was_nobodys_fault(conn: AsyncConnection) -> None:
    """A provider that asks for patience, a person that is asked: the attempt is given back."""
    held = await held_run(conn)
    await runs.park_run(
        conn,
        held,
        RunState.WAITING_RETRY,
        delay=30,
        refund=True,
        error={"reason": "busy"},
        spent=Spent(5, None),
    )
    found = await one_run(
        conn,
        "state::text, attempt, error, tokens, lease_expires_at,"
        " next_attempt_at between now() + interval '25 s' and now() + interval '31 s'",
        held.run_id,
    )
    assert found == ("waiting_retry", 0, {"reason": "busy"}, 5, None, True)


async def test_a_failed_attempt_is_counted(conn: AsyncConnection) -> None:
    """It was counted when it began; parking does not take it back."""
    held = await held_run(conn)
    await runs.park_run(conn, held, RunState.PENDING, spent=NOTHING)
    assert await one_run(conn, "state::text, attempt", held.run_id) == ("pending", 1)


@pytest.mark.slow
async def test_the_end_frees_runs_that_were_marked_while_it_waited(conn: AsyncConnection) -> None:
    """All that stand behind the run, and nobody else."""
    held = await held_run(conn)
    await add_runs(conn, held.attachment_id, "a", "b", "a")
    await claim(conn)
    assert await column(conn, "select blocked_by from agent.run order by id") == [
        None,
        held.run_id,
        None,
        held.run_id + 1,
    ]
    await finish(conn, held)
    assert await column(conn, "select blocked_by from agent.run order by id") == [
        None,
        None,
        None,
        held.run_id + 1,
    ]
