"""Cancelling, retrying and resolving: what a person may do with a run, and when."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    message_of,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from tests.helpers.queue import (
    LEASE,
    NOTHING,
    add_runs,
    claim,
    finish,
    ids,
    one_run,
    park_for_approval,
    set_clock,
    states,
)
from walagent.deciders.loop import since_fresh
from walagent.domain.run import Claim, RunState, StepKind
from walagent.message import Json
from walagent.store import claiming, runs
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
    await claiming.tick(conn)
    assert await claim(conn) == []


async def test_a_run_that_is_worked_on_is_reported(conn: AsyncConnection, dsn: str) -> None:
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


async def failed_run(conn: AsyncConnection, spec: str = "tools=[refund_user]") -> int:
    """A run that has ended badly, of version 1."""
    await run_all(conn, DESK)
    (added,) = await add_runs(
        conn, await attach(conn, spec), "a", change={"op": "insert", "new": {"id": 1, "issue": "x"}}
    )
    (held,) = await claim(conn)
    await finish(conn, held, RunState.FAILED, error={"reason": "x"})
    return added


CHANGED = "update agent.agent set system_prompt = 'Be careful.'"


async def test_a_retry_uses_the_current_version_of_the_agent(conn: AsyncConnection) -> None:
    """What was fixed helps the runs that failed before; the old version can be asked for."""
    run = await failed_run(conn)
    await run_all(conn, CHANGED)
    await value(conn, "select agent.retry(%s, same_version => true)", run)
    assert await one_run(conn, "attachment_version", run) == (1,)
    await value(conn, "select agent.cancel(%s)", run)
    await value(conn, "select agent.retry(%s)", run)
    latest = await value(conn, "select version from agent.attachment")
    assert latest > 1
    assert await one_run(conn, "attachment_version", run) == (latest,)
    assert await value(conn, "select version from agent.run_overview") == latest


async def test_a_retry_shows_no_more_than_the_current_version(conn: AsyncConnection) -> None:
    """A column that was taken from the agent meanwhile is removed from the stored change."""
    run = await failed_run(conn)
    await run_all(conn, "update agent.attachment set columns = '{status}'")
    await value(conn, "select agent.retry(%s)", run)
    assert await one_run(conn, "change", run) == ({"op": "insert", "new": {"id": 1}},)


async def test_a_retry_of_a_detached_agent_keeps_its_version(conn: AsyncConnection) -> None:
    """There is no other one."""
    run = await failed_run(conn)
    await run_all(conn, "select agent.detach('support_tickets')")
    await value(conn, "select agent.retry(%s)", run)
    assert await one_run(conn, "attachment_version, state::text", run) == (1, "pending")


SAID: dict[str, Json] = {"call_id": "c1", "name": "look_up"}
LOOK_UP = "create function look_up() returns text language sql stable as $$ select 'x' $$;"


async def run_with(conn: AsyncConnection, *steps: tuple[StepKind, dict[str, Json]]) -> int:
    """A failed run of an agent with a tool that reads and one that writes, and its steps."""
    await run_all(conn, DESK + LOOK_UP)
    await add_runs(conn, await attach(conn, "tools=[refund_user, look_up]"), None)
    (held,) = await claim(conn)
    for seq, (kind, content) in enumerate(steps):
        await runs.record_step(conn, held, NewStep(seq, kind, content))
    await finish(conn, held, RunState.FAILED, error={"reason": "x"})
    return held.run_id


def result(name: str, *, is_error: bool = False, **more: Json) -> tuple[StepKind, dict[str, Json]]:
    """The result of a call of a tool."""
    content: dict[str, Json] = {"content": "x", "is_error": is_error, **more}
    return StepKind.RESULT, {**SAID, "name": name, **content}


async def test_a_run_that_only_read_can_begin_afresh(conn: AsyncConnection) -> None:
    """Also one whose calls failed, or did not happen as a person says; its steps stay."""
    run = await run_with(
        conn,
        result("look_up"),
        (StepKind.INTENT, SAID),
        result("refund_user", is_error=True, call_id="c2"),
        (StepKind.INTENT, {**SAID, "name": "sent_it", "call_id": "c3"}),
        result("sent_it", is_error=True, call_id="c3", reviewed_by="me"),
    )
    await value(conn, "select agent.retry(%s, fresh => true)", run)
    (again,) = await claim(conn)
    me = await value(conn, "select session_user")
    assert again.steps[-1].content == {"retry": True, "by": me, "fresh": True}
    assert len(again.steps) == 6
    assert not since_fresh(again.steps)
    audited = "select detail from agent.audit where action = 'run.retried'"
    assert await value(conn, audited) == {"fresh": True}


@pytest.mark.parametrize(
    ("step", "named"),
    [
        (result("refund_user"), "refund_user"),
        ((StepKind.INTENT, {**SAID, "name": "refund_user"}), "refund_user"),
        (result("gone_since"), "gone_since"),
    ],
)
async def test_a_run_that_wrote_or_sent_something_cannot_begin_afresh(
    conn: AsyncConnection, step: tuple[StepKind, dict[str, Json]], named: str
) -> None:
    """The call is named: a model that does not know of it would make it twice."""
    run = await run_with(conn, result("look_up"), step)
    error = await refused(conn, "select agent.retry(%s, fresh => true)", run, state="WA003")
    assert f'call of "{named}" (step 1)' in message_of(error)
    assert "without fresh" in message_of(error)
    await value(conn, "select agent.retry(%s)", run)


async def test_what_an_earlier_version_called_writing_counts(conn: AsyncConnection) -> None:
    """The tool reads by now; when it was called, it wrote."""
    run = await run_with(conn, result("refund_user"))
    await run_all(conn, "create or replace function refund_user(ticket_id bigint, amount numeric"
                        " default 5) returns text language sql stable as $$ select 'x' $$;"
                        " update agent.attachment set condition = 'new.id > 0'")  # fmt: skip
    await refused(conn, "select agent.retry(%s, fresh => true)", run, state="WA003")


async def test_what_is_no_run_of_an_agent_has_no_transcript(conn: AsyncConnection) -> None:
    """Its kind is named."""
    run = await run_with(conn)
    await run_all(conn, "alter table agent.run disable trigger user")
    await conn.execute("update agent.run set kind = 'delivery' where id = %s", [run])
    error = await refused(conn, "select agent.retry(%s, fresh => true)", run, state="WA003")
    assert '"delivery"' in message_of(error)


async def test_many_are_changed_or_none(conn: AsyncConnection) -> None:
    """One that cannot be changed is named."""
    await run_all(conn, DESK)
    added = await add_runs(conn, await attach(conn, "tools=[refund_user]"), "a", "b", "c")
    assert await value(conn, "select agent.cancel_runs(%s, 'no')", added[:2]) == 2
    error = await refused(conn, "select agent.cancel_runs(%s)", added, state="WA003")
    assert f"run {added[0]}" in message_of(error)
    assert await states(conn) == ["cancelled", "cancelled", "pending"]
    assert await value(conn, "select agent.retry_runs(%s)", added[:2]) == 2
    held = await claim(conn)
    for each in held:
        await park_for_approval(conn, each)
    await refused(conn, "select agent.approve_calls(array[1, 2, 99])", state="WA005")
    assert await value(conn, "select agent.approve_calls(array[1, 2])") == 2
    assert await value(conn, "select agent.reject_calls(array[3], 'no')") == 1
    assert await states(conn) == ["pending"] * 3


async def test_an_approver_may_change_many(conn: AsyncConnection) -> None:
    """The functions for many need the same privilege as those for one."""
    await run_all(conn, DESK)
    added = await add_runs(conn, await attach(conn, ""), "a", "b")
    async with role(conn) as name:
        await value(conn, "select agent.grant_approver(%s)", name)
        async with as_role(conn, name):
            await value(conn, "select agent.cancel_runs(%s)", added)
            await value(conn, "select agent.retry_runs(%s)", added)
        await run_all(conn, f"revoke execute on function agent.cancel(bigint, text) from {name}")
        async with as_role(conn, name):
            await refused(conn, "select agent.cancel_runs(%s)", added, state="42501")


@pytest.mark.parametrize("ends", ["by its worker", "by a tick"])
async def test_a_cancellation_does_not_wait_for_a_step_which_is_rolled_back(
    conn: AsyncConnection, dsn: str, ends: str
) -> None:
    """The step has locked the run while its tool is executed, and sees the request at its end."""
    held = await held_run(conn)
    async with session(dsn) as worker:
        await run_all(worker, f"begin; select agent_internal.fence({held.run_id}, {held.lease})")
        await run_all(worker, "insert into refund values (1, 2)")
        await run_all(conn, "set statement_timeout = '5s'")
        assert await value(conn, "select agent.cancel(%s, 'stop')", held.run_id) == "running"
        assert await claiming.heartbeat(conn, "w1", [held], LEASE) == {held.run_id: True}
        await refused(
            worker,
            "select agent_internal.insert_step(%s, 0, 'result', '{}')",
            held.run_id,
            state="WA002",
        )
        await run_all(worker, "rollback")
    assert await value(conn, "select count(*) from refund") == 0
    if ends == "by its worker":
        await finish(conn, held, RunState.CANCELLED)
    else:
        await claiming.tick(conn)
        assert await one_run(conn, "cancel_requested", held.run_id) == (True,)
        await set_clock(conn, "1 hour")
    await claiming.tick(conn)
    assert await states(conn) == ["cancelled"]
    assert await value(conn, "select count(*) from agent_internal.cancel_request") == 0
