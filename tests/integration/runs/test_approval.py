"""People decide about tool calls: who, what, once, and in time."""

import json

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
from tests.helpers.queue import NOTHING, add_runs, claim, ids, one_run, set_clock
from walagent.domain.run import Claim
from walagent.message import ToolCall
from walagent.store import runs

CALL = ToolCall("c1", "refund_user", {"amount": 50, "to": "ann"})


async def asked(conn: AsyncConnection, run_as: str = "somebody") -> tuple[Claim, int]:
    """A run that waits for a person."""
    if not await value(conn, "select to_regclass('support_tickets') is not null"):
        await run_all(conn, DESK)
        await attach(conn, "tools=[refund_user], approve=[refund_user]")
    await add_runs(conn, await value(conn, "select id from agent.attachment"), "a")
    (held,) = await claim(conn)
    return held, await runs.ask_approval(conn, held, 0, CALL, run_as, 3600, NOTHING)


async def test_asking_parks_the_run_without_cost(conn: AsyncConnection) -> None:
    """No lease, no attempt used; the question shows the arguments and the row."""
    held, approval = await asked(conn)
    assert await one_run(conn, "state::text, attempt, lease_expires_at", held.run_id) == (
        "waiting_approval",
        0,
        None,
    )
    shown = await rows(
        conn, "select id, run_id, attachment, tool, arguments, key from agent.pending_approval"
    )
    assert shown == [(approval, held.run_id, "support_tickets", "refund_user", CALL.arguments, "0")]
    step = await value(conn, "select content from agent.step where kind = 'approval'")
    digest = await value(conn, "select digest from agent.approval")
    assert (step["call_id"], step["digest"]) == ("c1", digest)


@pytest.mark.parametrize(
    ("statement", "decision", "reason"),
    [
        ("select agent.approve(%s)", "approved", None),
        ("select agent.reject(%s)", "rejected", None),
        ("select agent.reject(%s, 'too much')", "rejected", "too much"),
        ("update agent.approval set state = 'approved' where id = %s", "approved", None),
    ],
)
async def test_a_decision_is_one_step_and_lets_the_run_go_on(
    conn: AsyncConnection, statement: str, decision: str, reason: str | None
) -> None:
    """It says who decided what and why, about which arguments."""
    held, approval = await asked(conn)
    await conn.execute(statement.encode(), [approval])
    me = await value(conn, "select current_user")
    step = await value(conn, "select content from agent.step where kind = 'decision'")
    digest = await value(conn, "select digest from agent.approval")
    assert step == {
        "call_id": "c1",
        "decision": decision,
        "by": me,
        "reason": reason,
        "digest": digest,
    }
    assert await rows(conn, "select state, decided_by, reason from agent.approval") == [
        (decision, me, reason)
    ]
    (again,) = await claim(conn)
    assert (again.run_id, again.attempt, len(again.steps)) == (held.run_id, 1, 2)


async def test_a_decision_is_made_once(conn: AsyncConnection) -> None:
    """Whoever comes second is told what was decided."""
    _, approval = await asked(conn)
    await value(conn, "select agent.approve(%s)", approval)
    for statement in ("select agent.reject(%s)", "select agent.approve(%s)"):
        error = await refused(conn, statement, approval, state="WA005")
        assert f"approval {approval} is already approved" in message_of(error)
    assert await value(conn, "select count(*) from agent.step where kind = 'decision'") == 1


async def test_of_two_people_who_decide_at_once_one_does(conn: AsyncConnection, dsn: str) -> None:
    """The other hears of it."""
    _, approval = await asked(conn)
    async with session(dsn) as other:
        await run_all(conn, "begin")
        await value(conn, "select agent.approve(%s)", approval)
        await run_all(other, "set lock_timeout = '100ms'")
        await refused(other, "select agent.reject(%s)", approval, state="55P03")
        await run_all(conn, "commit")
        await refused(other, "select agent.reject(%s)", approval, state="WA005")


async def test_nobody_changes_what_was_asked(conn: AsyncConnection) -> None:
    """Neither before the decision nor with it; the digest is of the exact arguments."""
    _, approval = await asked(conn)
    for changed in (
        "arguments = '{\"amount\": 5000}'",
        "arguments = '{\"amount\": 5000}', state = 'approved'",
        "tool = 'escalate_to_human'",
        "call_id = 'c2'",
        "run_as = 'nobody'",
        "digest = 'x'",
        "expires_at = expires_at + interval '1 year'",
        "run_id = run_id + 1",
    ):
        await refused(conn, f"update agent.approval set {changed}", state="WA005")
    plain = json.dumps({"to": "ann", "amount": 50})
    other = json.dumps({"to": "ann", "amount": 51})
    same = "agent_internal.call_digest(run_id, 'c1', 'refund_user', %s) = digest"
    digest = f"select {same} from agent.approval"
    assert await value(conn, digest, plain) is True
    assert await value(conn, digest, other) is False
    assert approval == await value(conn, "select id from agent.approval")


async def test_a_question_ends_unanswered_only_when_its_time_is_up(conn: AsyncConnection) -> None:
    """No approver marks it expired or cancelled, and leaves its run waiting for ever."""
    held, _ = await asked(conn)
    async with role(conn) as person:
        await value(conn, "select agent.grant_approver(%s)", person)
        async with as_role(conn, person):
            for state in ("expired", "cancelled"):
                await refused(conn, f"update agent.approval set state = '{state}'", state="WA005")
    assert await one_run(conn, "state::text", held.run_id) == ("waiting_approval",)


async def test_a_late_decision_is_refused(conn: AsyncConnection) -> None:
    """Also in the moment before the question is marked as expired."""
    _, approval = await asked(conn)
    await set_clock(conn, "2 hours")
    error = await refused(conn, "select agent.approve(%s)", approval, state="WA005")
    assert "has expired" in message_of(error)


async def test_a_question_of_a_cancelled_run_is_answered_by_nobody(conn: AsyncConnection) -> None:
    """It ends with the run."""
    held, approval = await asked(conn)
    await value(conn, "select agent.cancel(%s)", held.run_id)
    await refused(conn, "select agent.approve(%s)", approval, state="WA005")
    assert await value(conn, "select state from agent.approval") == "cancelled"
    assert await one_run(conn, "state::text", held.run_id) == ("cancelled",)


async def test_a_run_that_was_cancelled_while_it_waited_can_ask_again(
    conn: AsyncConnection,
) -> None:
    """After a retry the same call is asked about anew."""
    held, first = await asked(conn)
    await value(conn, "select agent.cancel(%s)", held.run_id)
    await value(conn, "select agent.retry(%s)", held.run_id)
    (again,) = await claim(conn)
    second = await runs.ask_approval(conn, again, 2, CALL, "somebody", 60, NOTHING)
    assert second != first
    await value(conn, "select agent.approve(%s)", second)
    assert ids(await claim(conn)) == [held.run_id]


async def test_an_approver_decides_and_reads_but_does_no_more(
    conn: AsyncConnection, dsn: str
) -> None:
    """agent.grant_approver is enough, and not more than that."""
    _, approval = await asked(conn)
    async with role(conn) as person:
        await value(conn, "select agent.grant_approver(%s)", person)
        async with session(dsn, user=person) as own:
            assert await value(own, "select count(*) from agent.pending_approval") == 1
            for statement in (
                "update agent.approval set arguments = '{}'",
                "update agent.approval set decided_by = 'somebody'",
                "update agent.run set state = 'pending'",
                "insert into agent.step values (1, 9, 'decision', '{}')",
                "delete from agent.approval",
                "select agent_internal.tick()",
                "select * from agent_internal.secret",
            ):
                await refused(own, statement, state="42501")
            await value(own, "select agent.approve(%s)", approval)
        assert await value(conn, "select decided_by from agent.approval") == person


async def test_the_login_has_decided_and_not_a_role_that_it_has_set(conn: AsyncConnection) -> None:
    """Several may set the same role; who it was shows in the approval."""
    _, approval = await asked(conn)
    async with role(conn) as shared:
        await value(conn, "select agent.grant_approver(%s)", shared)
        async with as_role(conn, shared):
            await value(conn, "select agent.approve(%s)", approval)
        assert await value(conn, "select decided_by = session_user from agent.approval") is True


async def test_a_viewer_decides_nothing(conn: AsyncConnection) -> None:
    """It reads."""
    held, approval = await asked(conn)
    async with role(conn) as person:
        await value(conn, "select agent.grant_viewer(%s)", person)
        async with as_role(conn, person):
            assert await value(conn, "select count(*) from agent.run_overview") == 1
            for statement in (
                f"select agent.approve({approval})",
                f"select agent.cancel({held.run_id})",
                "update agent.approval set state = 'approved'",
                "select * from agent_internal.secret",
            ):
                await refused(conn, statement, state="42501")


async def test_the_role_that_an_agent_runs_as_does_not_approve_its_calls(
    conn: AsyncConnection, dsn: str
) -> None:
    """Neither by itself, nor by taking another role after it has logged in."""
    async with role(conn) as bot, role(conn) as person:
        await value(conn, "select agent.grant_approver(%s)", bot)
        await value(conn, "select agent.grant_approver(%s)", person)
        await run_all(conn, f"grant {person} to {bot}")
        _, approval = await asked(conn, run_as=bot)
        async with session(dsn, user=bot) as own:
            for setting in ("reset role", f"set role {person}"):
                await run_all(own, setting)
                for statement in ("select agent.approve(%s)", "select agent.reject(%s)"):
                    error = await refused(own, statement, approval, state="WA006")
                    assert f'role "{bot}" cannot decide' in message_of(error)
        async with session(dsn, user=person) as own:
            await value(own, "select agent.approve(%s)", approval)


async def test_tricks_of_the_search_path_approve_nothing(conn: AsyncConnection, dsn: str) -> None:
    """The check uses PostgreSQL's own operators, whatever stands before them."""
    async with role(conn) as bot:
        await value(conn, "select agent.grant_approver(%s)", bot)
        _, approval = await asked(conn, run_as=bot)
        await run_all(conn, f"create schema {bot} authorization {bot}")
        async with session(dsn, user=bot) as own:
            await run_all(
                own,
                "create function lie(name, name) returns boolean language sql as 'select false';"
                "create operator = (leftarg = name, rightarg = name, function = lie);"
                f"set search_path = {bot}, pg_catalog",
            )
            await refused(
                own,
                "update agent.approval set state = 'approved' where id operator(pg_catalog.=) %s",
                approval,
                state="WA006",
            )


async def test_what_is_not_there_cannot_be_approved(conn: AsyncConnection) -> None:
    """A wrong number is an error, not nothing."""
    error = await refused(conn, "select agent.approve(4711)", state="WA005")
    assert "approval 4711 does not exist" in message_of(error)


async def test_a_worker_that_waits_for_questions_hears_of_them(
    conn: AsyncConnection, dsn: str
) -> None:
    """The notification carries the approval's number."""
    async with session(dsn) as ears:
        await run_all(ears, "listen walagent_approvals")
        _, approval = await asked(conn)
        heard = [n.payload async for n in ears.notifies(timeout=5, stop_after=1)]
    assert heard == [str(approval)]
