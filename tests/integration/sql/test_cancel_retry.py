"""Cancelling, retrying and resolving: what a person may do with a run, and when."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, message_of, refused, rows, run_all, session, value
from tests.helpers.queue import NOTHING, add_runs, claim, finish, ids, one_run, set_clock, states
from walagent.run import Claim, RunState, StepKind
from walagent.store import runs
from walagent.store.runs import NewStep


async def held_run(conn: AsyncConnection, ordering_key: str | None = "a") -> Claim:
    """A run in our hands."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, "tools=[refund_user]"), ordering_key)
    (held,) = await claim(conn)
    return held


async def test_a_run_that_nobody_works_on_is_cancelled_at_once(conn: AsyncConnection) -> None:
    """With the reason that was given, or a plain one."""
    await run_all(conn, DESK)
    first, second = await add_runs(conn, await attach(conn, ""), "a", "b")
    assert await value(conn, "select agent.cancel(%s, 'a mistake')", first) == "cancelled"
    assert await value(conn, "select agent.cancel(%s)", second) == "cancelled"
    assert await one_run(conn, "state::text, error, finished_at is not null", first) == (
        "cancelled",
        {"reason": "a mistake"},
        True,
    )
    assert await one_run(conn, "error", second) == ({"reason": "cancelled"},)
    assert await claim(conn) == []


@pytest.mark.parametrize("state", ["waiting_retry", "needs_review", "pending"])
async def test_a_run_that_waits_is_cancelled_at_once(conn: AsyncConnection, state: str) -> None:
    """Whatever it waits for."""
    held = await held_run(conn)
    await runs.park_run(conn, held, RunState(state), delay=60, spent=NOTHING)
    assert await value(conn, "select agent.cancel(%s)", held.run_id) == "cancelled"
    assert await states(conn) == ["cancelled"]


async def test_a_run_that_collects_is_cancelled_with_all_its_changes(conn: AsyncConnection) -> None:
    """Its time does not come any more."""
    held = await held_run(conn)
    await runs.park_run(conn, held, RunState.PENDING, spent=NOTHING)
    await run_all(conn, "update agent.run set not_before = now() + interval '5 s'")
    await value(conn, "select agent.cancel(%s)", held.run_id)
    await set_clock(conn, "1 minute")
    await runs.tick(conn)
    assert await claim(conn) == []


async def test_a_run_that_is_worked_on_is_told(conn: AsyncConnection, dsn: str) -> None:
    """Its worker hears of it by notification, and ends it."""
    held = await held_run(conn)
    async with session(dsn) as ears:
        await run_all(ears, "listen walagent_cancel")
        assert await value(conn, "select agent.cancel(%s)", held.run_id) == "running"
        heard = [n.payload async for n in ears.notifies(timeout=5, stop_after=1)]
    assert heard == [str(held.run_id)]
    assert await one_run(conn, "state::text, cancel_requested", held.run_id) == ("running", True)


@pytest.mark.parametrize("state", ["succeeded", "failed", "dead", "cancelled", "skipped"])
async def test_what_has_ended_is_not_cancelled(conn: AsyncConnection, state: str) -> None:
    """The error says what became of it."""
    held = await held_run(conn)
    await finish(conn, held, RunState(state))
    error = await refused(conn, "select agent.cancel(%s)", held.run_id, state="WA003")
    assert f"run {held.run_id} is already {state}" in message_of(error)


@pytest.mark.parametrize("state", ["failed", "dead", "cancelled"])
async def test_an_ended_run_goes_on_after_a_retry(conn: AsyncConnection, state: str) -> None:
    """With its steps, a note of who asked for it, and its attempts before it."""
    held = await held_run(conn)
    step = NewStep(0, StepKind.REPLY, {"parts": [], "stop": "end"})
    await runs.record_step(conn, held, step)
    await finish(conn, held, RunState(state), error={"reason": "x"})
    await value(conn, "select agent.retry(%s)", held.run_id)
    found = await one_run(
        conn, "state::text, attempt, error, result, finished_at, cancel_requested", held.run_id
    )
    assert found == ("pending", 0, None, None, None, False)
    (again,) = await claim(conn)
    assert (again.attempt, again.lease) == (1, 2)
    me = await value(conn, "select session_user")
    assert [(s.seq, s.kind, s.content) for s in again.steps] == [
        (0, StepKind.REPLY, step.content),
        (1, StepKind.NOTE, {"retry": True, "by": me}),
    ]


@pytest.mark.parametrize("state", ["succeeded", "skipped"])
async def test_what_has_succeeded_is_not_retried(conn: AsyncConnection, state: str) -> None:
    """Nor what was passed over on purpose."""
    held = await held_run(conn)
    await finish(conn, held, RunState(state))
    error = await refused(conn, "select agent.retry(%s)", held.run_id, state="WA003")
    assert "only failed, dead and cancelled runs can be retried" in message_of(error)


async def test_a_run_that_goes_on_is_not_retried(conn: AsyncConnection) -> None:
    """Nor one that is not there."""
    held = await held_run(conn)
    for run_id in (held.run_id, 4711):
        await refused(conn, "select agent.retry(%s)", run_id, state="WA003")
        if run_id == 4711:
            await refused(conn, "select agent.cancel(%s)", run_id, state="WA003")


async def test_an_old_worker_cannot_end_a_run_that_was_retried(conn: AsyncConnection) -> None:
    """Its lease is of before."""
    held = await held_run(conn)
    await finish(conn, held, RunState.FAILED, error={"reason": "x"})
    await value(conn, "select agent.retry(%s)", held.run_id)
    await claim(conn, worker="w2")
    with pytest.raises(Exception, match="no longer held"):
        await finish(conn, held)


async def reviewed(conn: AsyncConnection) -> Claim:
    """A run whose unsafe call was started, and nobody knows more."""
    held = await held_run(conn)
    content = {"call_id": "c1", "name": "post", "idempotency_key": "k"}
    await runs.record_step(conn, held, NewStep(0, StepKind.INTENT, content))
    await runs.park_run(
        conn, held, RunState.NEEDS_REVIEW, error={"reason": "unknown"}, spent=NOTHING
    )
    return held


@pytest.mark.parametrize(
    ("happened", "note", "content"),
    [
        (True, "", "done"),
        (True, "receipt 17", "receipt 17"),
        (False, "", "this did not happen"),
        (False, "card expired", "this did not happen: card expired"),
    ],
)
async def test_a_person_says_what_became_of_an_unsafe_call(
    conn: AsyncConnection,
    happened: bool,  # noqa: FBT001
    note: str,
    content: str,
) -> None:
    """The answer is the call's result; the model goes on from there."""
    held = await reviewed(conn)
    await value(conn, "select agent.resolve(%s, %s, %s)", held.run_id, happened, note)
    (again,) = await claim(conn)
    me = await value(conn, "select session_user")
    assert again.steps[-1].kind is StepKind.RESULT
    assert again.steps[-1].content == {
        "call_id": "c1",
        "name": "post",
        "is_error": not happened,
        "content": content,
        "reviewed_by": me,
    }
    assert await one_run(conn, "error", held.run_id) == (None,)


async def test_only_a_run_that_waits_for_it_is_resolved(conn: AsyncConnection) -> None:
    """And only once."""
    held = await reviewed(conn)
    await value(conn, "select agent.resolve(%s, true)", held.run_id)
    for run_id in (held.run_id, 4711):
        error = await refused(conn, "select agent.resolve(%s, true)", run_id, state="WA003")
        assert f"run {run_id} is not waiting for a review" in message_of(error)
    assert await value(conn, "select count(*) from agent.step where kind = 'result'") == 1


async def test_cancelling_frees_the_ordering_key(conn: AsyncConnection) -> None:
    """Also of a run that was waiting for something else."""
    held = await held_run(conn)
    (second,) = await add_runs(conn, held.attachment_id, "a")
    await claim(conn)
    await runs.park_run(conn, held, RunState.WAITING_RETRY, delay=3600, spent=NOTHING)
    await value(conn, "select agent.cancel(%s)", held.run_id)
    assert ids(await claim(conn)) == [second]
    assert await rows(conn, "select * from agent.broken_invariant") == []
