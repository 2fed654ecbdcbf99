"""People are notified by rules, and decide in Slack as the principals that they are."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all, value
from tests.helpers.queue import NOTHING, add_runs, claim
from tests.helpers.slack import SlackServer, slack_server
from tests.helpers.web import reply, web
from tests.integration.outbox.approving import ask, notify, people, token
from tests.integration.outbox.sending import (
    SECRETS,
    channel,
    delivering,
    ended,
    hurry,
    post,
    send,
)
from tests.unit.outbox.test_text import DELIVERY
from walagent.message import ToolCall
from walagent.outbox.slack import Press, SlackApp, SlackSender, SocketMode, message_of
from walagent.store import runs
from walagent.store.outbox import decide_from_slack
from walagent.store.sessions.connections import connect


def app(server: SlackServer) -> SlackApp:
    """The app of a test."""
    return SlackApp("BOT", "APP", server.url)


@asynccontextmanager
async def listening(server: SlackServer, dsn: str) -> AsyncIterator[None]:
    """Receive pressed buttons as the daemon does."""

    async def decide(press: Press) -> str | None:
        async with await connect(dsn) as conn:
            return await decide_from_slack(
                conn, press.user, press.approval, press.digest, approve=press.approve
            )

    task = asyncio.create_task(SocketMode(app(server), SECRETS.get, decide).run())
    try:
        await asyncio.wait_for(server.connected.wait(), 20)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_approval_is_announced_with_the_call_and_decided_by_a_button(
    conn: AsyncConnection, dsn: str
) -> None:
    """The principal with the Slack user decides; the message then shows who it was."""
    await people(conn)
    await channel(conn, "slack", "C123", principal="ann")
    await notify(conn, "slack")
    async with slack_server() as server:
        approval = await ask(conn)
        link = await token(conn)
        senders = {"slack": SlackSender(post(0), app(server))}
        async with delivering(dsn, senders, "https://agents.acme.test/"):
            assert [each for each, _ in await ended(conn)] == ["succeeded"]
        (_, message, authorization) = server.sent[0]
        assert authorization == "Bearer xoxb-1"
        section, actions = message["blocks"]
        assert "refund_user" in section["text"]["text"]
        assert '"amount":50' in section["text"]["text"].replace(" ", "")
        assert "<b>" not in section["text"]["text"]
        approve, reject, opens = actions["elements"]
        assert opens["url"] == f"https://agents.acme.test/approvals/{link}"
        assert (approve["action_id"], reject["action_id"]) == (
            "walagent_approve",
            "walagent_reject",
        )
        async with listening(server, dsn):
            await server.press("UANN", approve["action_id"], approve["value"])
            updated = await server.called("chat.update")
    assert "Approved by <@UANN>" in updated["text"]
    assert await rows(conn, "select id, state, decided_by from agent.approval") == [
        (approval, "approved", "ann")
    ]


@pytest.mark.parametrize(
    ("user", "setup", "word"),
    [
        ("UEVE", "", "no principal"),
        ("UANN", "update agent.principal set active = false", "no principal"),
        ("UANN", "delete from agent.role_grant", "may not decide"),
        (
            "UANN",
            'update agent.principal set metadata = \'{"slack_user": "UANN"}\'',
            "no principal",
        ),
        ("UANN", "select agent.reject(id) from agent.approval", "already rejected"),
        ("UANN", "other digest", "not the one"),
    ],
)
async def test_a_button_that_may_not_decide_does_not(
    conn: AsyncConnection, dsn: str, user: str, setup: str, word: str
) -> None:
    """Who pressed it is told why; the audit has it."""
    await people(conn)
    approval = await ask(conn)
    digest = await value(conn, "select digest from agent.approval")
    before = "rejected" if "reject" in setup else "pending"
    if setup == "other digest":
        digest = "0" * 64
    elif setup:
        await run_all(conn, setup)
    async with slack_server() as server, listening(server, dsn):
        await server.press(user, "walagent_approve", f"{approval}:{digest}")
        said = await server.called("chat.postEphemeral")
        await server.press(user, "walagent_approve", "1; drop table")
        assert server.acknowledged
    assert word in said["text"]
    assert await value(conn, "select state from agent.approval") == before
    audited = await rows(
        conn, "select detail ->> 'slack_user' from agent.audit where action = 'approval.refused'"
    )
    assert audited == [(user,)]


async def test_slack_asks_for_a_pause_or_refuses(conn: AsyncConnection, dsn: str) -> None:
    """429 is retried, not before Retry-After; a channel that does not exist is not."""
    await channel(conn, "slack", "C123")
    async with slack_server() as server:
        limited = {"ok": False, "error": "ratelimited"}
        server.answers["chat.postMessage"] = (429, limited, {"Retry-After": "900"})
        async with delivering(dsn, {"slack": SlackSender(post(0), app(server))}):
            await send(conn, "slack")
            await hurry(conn)
            assert [state for state, _ in await ended(conn)] == ["succeeded"]
            server.answers["chat.postMessage"] = (
                200,
                {"ok": False, "error": "channel_not_found"},
                {},
            )
            await send(conn, "slack")
            (_, (state, said)) = await ended(conn, 2)
    assert (state, "channel_not_found" in str(said)) == ("failed", True)


async def test_an_incoming_webhook_of_slack_is_a_secret(conn: AsyncConnection, dsn: str) -> None:
    """Its URL comes from the environment, and is in no row, error or log."""
    async with web({"/hook": reply(b"ok")}) as hook:
        secrets = {"HOOK": f"http://127.0.0.1:{hook.port}/hook", "OTHER": "postgres://secret@db/x"}
        await channel(conn, "slack", "", secret="HOOK")
        await channel(conn, "slack", "", name="other", secret="OTHER")
        sender = SlackSender(post(hook.port, secrets), SlackApp())
        async with delivering(dsn, {"slack": sender}):
            await send(conn, "slack")
            await send(conn, "other")
            (_, (state, said)) = await ended(conn, 2)
    assert [each.line for each in hook.sent] == ["POST /hook HTTP/1.1"]
    assert (state, "OTHER" in str(said), "secret@" in str(said)) == ("failed", True, False)


async def test_a_large_call_waits_and_is_announced_without_it(conn: AsyncConnection) -> None:
    """Neither the row nor the arguments fail the run; a button decides only what it shows."""
    await people(conn)
    await channel(conn, "slack", "C123", principal="ann")
    await notify(conn, "slack")
    large = "x" * 300_000
    attachment = await value(conn, "select id from agent.attachment")
    await add_runs(conn, attachment, None, change={"op": "insert", "new": {"issue": large}})
    (held,) = await claim(conn)
    made = ToolCall("c1", "refund_user", {"reason": large})
    await runs.ask_approval(conn, held, 0, made, "somebody", 3600, NOTHING)
    assert await value(conn, "select state from agent.approval") == "pending"
    ((body,),) = await rows(conn, "select body from agent.outbox")
    assert (body["arguments"], body["row"]) == ("(cut)", "(cut)")
    message = message_of(replace(DELIVERY, body=body), "https://agents.acme.test/x", buttons=True)
    (opens,) = message["blocks"][1]["elements"]
    assert opens["url"] == "https://agents.acme.test/x"


async def test_other_events_are_announced_once(conn: AsyncConnection) -> None:
    """A dead run, one that needs a review, an exceeded budget, a gap."""
    await people(conn)
    await channel(conn, "email", "ann@acme.test", principal="ann")
    for event in ("run.dead", "run.needs_review", "budget.exceeded", "gap"):
        await notify(conn, "email", event)
    await run_all(
        conn,
        """
        insert into agent.budget (name, period, max_cost) values ('all', 'day', 1);
        insert into agent.run (queue_id, attachment_id, attachment_version, change, state,
                               lease_expires_at, commit_lsn, ordinal)
        select id, id, 1, '{}', 'running', now(), '0/10', n
          from agent.attachment, generate_series(1, 4) n;
        update agent.run
           set state = 'dead', lease_expires_at = null, finished_at = now(),
               error = '{"reason": "why"}'
         where ordinal = 1;
        update agent.run set state = 'needs_review', lease_expires_at = null where ordinal = 2;
        update agent.run
           set state = 'waiting_retry', lease_expires_at = null, next_attempt_at = now(),
               error = '{"reason": "spent", "budget": "all"}'
         where ordinal in (3, 4);
        insert into agent.gap (slot, reason) values ('walagent', 'lost');
        """,
    )
    assert await rows(conn, "select event, subject from agent.outbox order by event") == [
        ("budget.exceeded", "Budget all is exceeded"),
        ("gap", "Gap 1: WAL of slot walagent was lost"),
        ("run.dead", "Run 1 is dead"),
        ("run.needs_review", "Run 2 is needs_review"),
    ]
    assert await value(conn, "select count(*) from agent.approval_link") == 0


async def test_a_dead_delivery_is_not_announced(conn: AsyncConnection) -> None:
    """The message about it could fail in the same way, and so on."""
    await channel(conn, "email", "ann@acme.test")
    await notify(conn, "email", "run.dead")
    await send(conn, "email")
    await run_all(conn, "update agent.run set state = 'dead', finished_at = now()")
    assert await value(conn, "select count(*) from agent.outbox") == 1
