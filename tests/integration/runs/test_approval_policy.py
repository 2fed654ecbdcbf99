"""Which calls wait for a person, who that can be, and with which arguments a call continues."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.daemon import daemon
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
    until,
    value,
)
from tests.helpers.queue import NOTHING, add_runs, claim, ids
from tests.integration.runs.test_approval import CALL, asked
from walagent.domain.run import Claim
from walagent.message import Json
from walagent.models.script import call
from walagent.store import runs

EDIT = '{"ticket_id": 1, "amount": 7}'
EDIT_OF_BOUND = '{"amount": 7}'


@asynccontextmanager
async def person(
    conn: AsyncConnection, name: str, roles: str = "{approver}", kind: str = "user"
) -> AsyncIterator[str]:
    """A login of a principal with these roles, which has the privileges of an approver."""
    async with role(conn) as login:
        await value(conn, "select agent.grant_approver(%s)", login)
        await run_all(
            conn,
            "insert into agent.principal (tenant, name, login, kind)"
            f" values ('default', '{name}', '{login}', '{kind}');"
            "insert into agent.role_grant (tenant, principal, role, granted_by)"
            f" select 'default', '{name}', r, 'test' from unnest('{roles}'::text[]) r",
        )
        yield login
        await run_all(conn, f"delete from agent.principal where name = '{name}'")


async def waiting(conn: AsyncConnection, **fields: Json) -> tuple[Claim, int]:
    """A run of an attachment that waits for a person; *fields* are the run's."""
    await add_runs(conn, await value(conn, "select id from agent.attachment"), None, **fields)
    (held,) = await claim(conn)
    return held, await runs.ask_approval(conn, held, 0, CALL, "somebody", 3600, NOTHING)


async def test_of_twenty_approvers_at_once_one_decides(conn: AsyncConnection, dsn: str) -> None:
    """One decision counts; the others get WA005, and the run continues once."""
    held, approval = await asked(conn)
    async with AsyncExitStack() as stack:
        people = [await stack.enter_async_context(session(dsn)) for _ in range(20)]
        statements = [
            "select agent.approve(%s)",
            "select agent.reject(%s, 'no')",
            f"select agent.approve(%s, '{EDIT}')",
            "select agent.approve_calls(array[%s::bigint])",
        ]
        decided = await asyncio.gather(
            *(
                value(each, statements[n % len(statements)], approval)
                for n, each in enumerate(people)
            ),
            return_exceptions=True,
        )
    states = [each.sqlstate for each in decided if isinstance(each, Error)]
    assert states == ["WA005"] * 19
    assert await value(conn, "select count(*) from agent.step where kind = 'decision'") == 1
    assert await value(conn, "select count(*) from agent.audit where action ~ '^approval'") == 1
    assert ids(await claim(conn)) == [held.run_id]


async def test_edited_arguments_are_a_digest_of_their_own(conn: AsyncConnection) -> None:
    """They are stored beside the requested ones, shown in the transcript and in the audit."""
    held, approval = await asked(conn)
    requested = await value(conn, "select digest from agent.approval")
    await value(conn, f"select agent.approve(%s, arguments => '{EDIT}')", approval)
    ((arguments, edited, digest, of_edit),) = await rows(
        conn, "select arguments, edited, digest, edited_digest from agent.approval"
    )
    assert (arguments, edited, digest) == (CALL.arguments, {"ticket_id": 1, "amount": 7}, requested)
    assert of_edit != requested
    step = await value(conn, "select content from agent.step where kind = 'decision'")
    assert step["edited"] == {"ticket_id": 1, "amount": 7}
    assert (step["digest"], step["requested_digest"]) == (of_edit, requested)
    ((action, detail),) = await rows(
        conn, "select action, detail from agent.audit where object = %s", str(approval)
    )
    assert action == "approval.approved"
    assert (detail["digest"], detail["requested_digest"]) == (of_edit, requested)
    (again,) = await claim(conn)
    assert not await runs.is_approved(conn, again, CALL)
    assert again.run_id == held.run_id


async def test_the_same_arguments_are_no_edit(conn: AsyncConnection) -> None:
    """However they are written."""
    _, approval = await asked(conn)
    await value(conn, 'select agent.approve(%s, \'{"to": "ann", "amount": 50.0}\')', approval)
    assert await rows(conn, "select state, edited from agent.approval") == [("approved", None)]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ('{"ticket_id": 9, "amount": 1}', "ticket_id"),
        ('{"dollars": 1}', "dollars"),
        ("[1]", "object"),
    ],
)
async def test_an_edit_that_the_tool_cannot_have_is_refused(
    conn: AsyncConnection, arguments: str, word: str
) -> None:
    """Nor one of an argument that is bound to the row."""
    await run_all(conn, DESK)
    await attach(conn, "tools=[refund_user], approve=[refund_user], bind=[ticket_id=id]")
    _, approval = await waiting(conn)
    error = await refused(
        conn, "select agent.approve(%s, %s::jsonb)", approval, arguments, state="WA005"
    )
    assert word in message_of(error)
    assert await value(conn, "select state from agent.approval") == "pending"


async def test_an_edit_comes_with_the_decision_or_not_at_all(conn: AsyncConnection) -> None:
    """Neither before it, nor with a rejection, nor with a digest that somebody chose."""
    await asked(conn)
    for changes in (
        "edited = '{}'",
        "edited = '{}', edited_digest = digest",
        "state = 'rejected', edited = '{}'",
    ):
        with pytest.raises(Error):
            await run_all(conn, f"update agent.approval set {changes}")
    await run_all(
        conn,
        f"update agent.approval set state = 'approved', edited = '{EDIT}', edited_digest = digest",
    )
    assert await value(conn, "select digest <> edited_digest from agent.approval") is True


async def test_an_edited_call_is_executed_as_edited(conn: AsyncConnection, dsn: str) -> None:
    """The tool gets what the person wrote, and the model reads that it did."""
    await run_all(conn, DESK)
    script = [call("refund_user", amount=500), "Done."]
    async with daemon(conn, dsn, script) as d:
        await attach(conn, "tools=[refund_user], approve=[refund_user], bind=[ticket_id=id]")
        await run_all(conn, "insert into support_tickets (issue) values ('charged twice')")
        await until(conn, "select exists (select from agent.pending_approval)")
        await run_all(
            conn, f"select agent.approve(id, '{EDIT_OF_BOUND}') from agent.pending_approval"
        )
        assert await d.ended() == [("1", "succeeded", "Done.", None)]
    assert await rows(conn, "select ticket_id, amount from refund") == [(1, 7)]


async def test_an_edit_against_the_schema_is_not_executed(conn: AsyncConnection, dsn: str) -> None:
    """The worker checks it against the whole schema; the model is told."""
    await run_all(conn, DESK)
    script = [call("refund_user", amount=500), "Done."]
    async with daemon(conn, dsn, script) as d:
        await attach(conn, "tools=[refund_user], approve=[refund_user], bind=[ticket_id=id]")
        await run_all(conn, "insert into support_tickets (issue) values ('charged twice')")
        await until(conn, "select exists (select from agent.pending_approval)")
        await run_all(
            conn, 'select agent.approve(id, \'{"amount": "all"}\') from agent.pending_approval'
        )
        assert await d.ended() == [("1", "succeeded", "Done.", None)]
    assert await rows(conn, "select * from refund") == []
    result = await value(conn, "select content from agent.step where kind = 'result'")
    assert result["is_error"]
    assert "edited" in result["content"]


async def test_a_principal_decides_with_the_role_alone(conn: AsyncConnection, dsn: str) -> None:
    """The privileges of its login are not enough; an admin has all roles."""
    _, approval = await asked(conn)
    async with (
        person(conn, "vera", "{viewer}") as viewer,
        person(conn, "ann") as approver,
        session(dsn, user=viewer) as hers,
        session(dsn, user=approver) as anns,
    ):
        await refused(hers, "select agent.approve(%s)", approval, state="42501")
        await run_all(
            conn, "update agent.role_grant set expires_at = now() where principal = 'ann'"
        )
        await refused(anns, "select agent.approve(%s)", approval, state="WA005")  # not even seen
        await run_all(conn, "update agent.role_grant set expires_at = null where principal = 'ann'")
        await value(anns, "select agent.approve(%s)", approval)
        assert await value(conn, "select decided_by from agent.approval") == "ann"


async def test_an_agent_decides_no_call(conn: AsyncConnection, dsn: str) -> None:
    """Also if somebody grants it the role: not its own, and not those of other agents."""
    _, approval = await asked(conn)
    async with (
        person(conn, "bot", kind="agent") as login,
        session(dsn, user=login) as own,
    ):
        await refused(own, "select agent.approve(%s)", approval, state="WA006")


async def test_with_four_eyes_the_requester_does_not_decide(
    conn: AsyncConnection, dsn: str
) -> None:
    """The author of the event that the run is about; another approver does."""
    await run_all(conn, DESK)
    await attach(conn, "tools=[refund_user], approve=[refund_user]")
    await run_all(conn, "update agent.agent set four_eyes = true")
    event: Json = {"op": "insert", "schema": "agent", "table": "event", "new": {"author": "ann"}}
    _, approval = await waiting(conn, change=event)
    async with (
        person(conn, "ann") as first,
        person(conn, "ben") as second,
        session(dsn, user=first) as anns,
        session(dsn, user=second) as bens,
    ):
        error = await refused(anns, "select agent.approve(%s)", approval, state="WA006")
        assert "another approver" in message_of(error)
        await value(bens, "select agent.reject(%s)", approval)
    assert await value(conn, "select requested_by from agent.approval") == ["ann"]


async def test_four_eyes_of_the_tenant_hold_for_who_attached(conn: AsyncConnection) -> None:
    """A change of a table has no author: the agent acts for the role that attached it."""
    await run_all(conn, DESK)
    await run_all(conn, "update agent.tenant set settings = '{\"four_eyes\": true}'")
    await attach(conn, "tools=[refund_user], approve=[refund_user]")
    _, approval = await waiting(conn)
    await refused(conn, "select agent.approve(%s)", approval, state="WA006")


NEEDED = "select definition #> '{tools,0,approval}' from agent.attachment"


async def test_a_policy_requires_approvals_from_a_risk_on(conn: AsyncConnection) -> None:
    """That of the tenant and that of the agent; a change holds from then on."""
    await run_all(conn, DESK)
    await run_all(
        conn,
        "insert into agent.tool (name, kind, target, risk) values"
        " ('refund', 'sql', 'refund_user(bigint, numeric)', 'high')",
    )
    await attach(conn, "tools=[refund]")
    assert await value(conn, NEEDED) is False
    for policy, needed in (
        ('update agent.tenant set settings = \'{"approve_from": "critical"}\'', False),
        ('update agent.tenant set settings = \'{"approve_from": "high"}\'', True),
        ("update agent.agent set approve_from = 'critical'", True),
        (
            "update agent.tool set risk = 'low'; update agent.attachment set version = version + 1",
            False,
        ),
        ("update agent.agent set approve_from = 'low'", True),
        ("update agent.tenant set settings = '{}'", True),
        ("update agent.agent set approve_from = null", False),
    ):
        await run_all(conn, policy)
        assert await value(conn, NEEDED) is needed, policy
    await refused(
        conn, 'update agent.tenant set settings = \'{"approve_from": "never"}\'', state="23514"
    )


async def test_pending_approvals_are_ordered_by_risk_then_age(conn: AsyncConnection) -> None:
    """The most dangerous call first."""
    await run_all(conn, DESK)
    await attach(conn, "tools=[refund_user], approve=[refund_user]")
    given = ["low", "high", "low", "critical", "medium", "high"]
    for risk in given:
        await run_all(
            conn,
            "insert into agent.tool (name, kind, target, risk)"
            f" values ('refund_user', 'sql', 'refund_user(bigint, numeric)', '{risk}')"
            " on conflict (scope, name) do update set risk = excluded.risk;"
            "update agent.attachment set version = version + 1",
        )
        version = await value(conn, "select version from agent.attachment")
        await waiting(conn, attachment_version=version)
    shown = await rows(conn, "select risk, id from agent.pending_approval")
    assert [risk for risk, _ in shown] == ["critical", "high", "high", "medium", "low", "low"]
    for level in ("high", "low"):
        same = [at for risk, at in shown if risk == level]
        assert same == sorted(same)


async def test_a_tool_without_a_risk_shows_the_one_that_it_counts_as(conn: AsyncConnection) -> None:
    """In the queue and in the approval: critical."""
    await run_all(conn, DESK)
    await attach(conn, "tools=[refund_user], approve=[refund_user]")
    await waiting(conn, attachment_version=1)
    for queue in ("pending_approval", "tool_call_queue"):
        assert await rows(conn, f"select risk from agent.{queue}") == [("critical",)]


async def test_an_approver_edits(conn: AsyncConnection, dsn: str) -> None:
    """agent.grant_approver is enough for it."""
    _, approval = await asked(conn)
    async with role(conn) as login:
        await value(conn, "select agent.grant_approver(%s)", login)
        async with session(dsn, user=login) as own:
            await value(own, f"select agent.approve(%s, '{EDIT}')", approval)
    async with role(conn) as login:
        await value(conn, "select agent.grant_runner(%s)", login)
        async with as_role(conn, login):
            await refused(conn, f"select agent.approve(%s, '{EDIT}')", approval)


TRANSFORM = """
insert into agent.policy (name, point, condition, action, expression)
values ('more', 'tool', $$call ->> 'tool' = 'refund_user'$$, 'transform',
        $$jsonb_set(call, '{arguments,amount}', '777')$$)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("made", ["before", "after"])
async def test_no_policy_changes_what_a_person_has_approved(
    conn: AsyncConnection, dsn: str, made: str
) -> None:
    """Whether it is made before the request or after it: the call ends, and nothing is paid."""
    await run_all(conn, DESK)
    script = [call("refund_user", ticket_id=1, amount=7), "Done."]
    async with daemon(conn, dsn, script) as d:
        await attach(conn, "tools=[refund_user], approve=[refund_user]")
        if made == "before":
            await run_all(conn, TRANSFORM)
        await run_all(conn, "insert into support_tickets (issue) values ('x')")
        await until(conn, "select exists (select from agent.approval where state = 'pending')")
        if made == "after":
            await run_all(conn, TRANSFORM)
        await run_all(conn, "select agent.approve(id) from agent.approval")
        await d.ended()
    assert await rows(conn, "select * from refund") == []
    said = "select content ->> 'denied' from agent.step where kind = 'result'"
    assert "a policy changes the arguments" in str(await value(conn, said))
