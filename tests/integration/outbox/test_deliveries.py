"""Messages leave by webhook and e-mail: retried, in order, and as often as the channel allows."""

import hmac
import json
from base64 import b64encode

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import (
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
from tests.helpers.mailbox import mailbox
from tests.helpers.web import Sent, reply, web
from tests.integration.outbox.sending import (
    SECRETS,
    channel,
    delivering,
    ended,
    hurry,
    post,
    send,
)
from walagent.outbox.email import EmailSender, SmtpServer
from walagent.outbox.webhook import Post, WebhookSender
from walagent.tools.http import HostRules


def is_signed(sent: Sent, key: str = SECRETS["HOOK_KEY"]) -> bool:
    """Whether a receiver accepts the signature of a request."""
    signed = f"{sent.headers['webhook-id']}.{sent.headers['webhook-timestamp']}.".encode()
    digest = hmac.digest(key.encode(), signed + sent.body, "sha256")
    return sent.headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}"


def smtp(port: int) -> EmailSender:
    """A sender through the server of a test."""
    server = SmtpServer("127.0.0.1", port, "walagent@acme.test", "none")
    return EmailSender(server, SECRETS.get)


async def test_a_webhook_is_signed_and_names_its_delivery(conn: AsyncConnection, dsn: str) -> None:
    """The receiver verifies ID, time and body with its key."""
    async with web() as hook:
        await channel(conn, "webhook", f"http://127.0.0.1:{hook.port}/in", secret="HOOK_KEY")
        async with delivering(dsn, {"webhook": WebhookSender(post(hook.port))}):
            delivery = await send(conn, "webhook")
            assert await ended(conn) == [("succeeded", "HTTP 200")]
    (sent,) = hook.sent
    assert is_signed(sent)
    assert not is_signed(sent, "another key")
    body = json.loads(sent.body)
    assert sent.headers["webhook-id"] == body["id"] == delivery
    assert (body["subject"], body["data"]) == ("A subject", {"text": "Hello."})
    kinds = await column(conn, "select kind from agent.step order by seq")
    assert kinds == ["intent", "result"]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_each_attempt_is_signed_again_with_its_time(conn: AsyncConnection, dsn: str) -> None:
    """ID and body are the same: a receiver recognizes a duplicate."""
    times = iter([1_000_000_000.0, 2_000_000_000.0, 2_000_000_005.0])
    async with web({"/in": reply(b"", "503 Busy")}) as hook:
        await channel(conn, "webhook", f"http://127.0.0.1:{hook.port}/in", secret="HOOK_KEY")
        sender = WebhookSender(post(hook.port), lambda: next(times))
        async with delivering(dsn, {"webhook": sender}):
            await send(conn, "webhook")
            await until(conn, "select exists (select from agent.run where state = 'waiting_retry')")
            hook.answers["/in"] = b""  # hangs up
            await hurry(conn)
            await until(conn, "select attempt = 2 and state = 'waiting_retry' from agent.run")
            hook.answers["/in"] = reply(b"ok")
            await hurry(conn)
            assert await ended(conn) == [("succeeded", "HTTP 200")]
    assert [is_signed(each) for each in hook.sent] == [True] * 3
    assert len({each.headers["webhook-timestamp"] for each in hook.sent}) == 3
    assert len({(each.headers["webhook-id"], each.body) for each in hook.sent}) == 1
    kinds = await column(conn, "select kind from agent.step order by seq")
    assert kinds == ["intent", "error"] * 2 + ["intent", "result"]


@pytest.mark.parametrize("status", ["400 Bad", "410 Gone"])
async def test_what_the_receiver_refuses_is_not_sent_again(
    conn: AsyncConnection, dsn: str, status: str
) -> None:
    """Until a person retries it."""
    async with web({"/in": reply(b"", status)}) as hook:
        await channel(conn, "webhook", f"http://127.0.0.1:{hook.port}/in", secret="HOOK_KEY")
        async with delivering(dsn, {"webhook": WebhookSender(post(hook.port))}):
            await send(conn, "webhook")
            ((state, said),) = await ended(conn)
            assert (state, status[:3] in str(said)) == ("failed", True)
            hook.answers["/in"] = reply(b"ok")
            await run_all(conn, "select agent.retry(run_id) from agent.outbox")
            await until(conn, "select state = 'succeeded' from agent.run")
    assert len(hook.sent) == 2
    assert await rows(conn, "select * from agent.broken_invariant") == []


@pytest.mark.parametrize(
    ("target", "secret", "word"),
    [
        ("http://127.0.0.1:{port}/in", "DATABASE_URL", "not allowed"),
        ("http://169.254.169.254/latest", "HOOK_KEY", "not allowed"),
        ("http://[::ffff:127.0.0.1]:{port}/in", "HOOK_KEY", "not allowed"),
        ("http://2130706433:{port}/in", "HOOK_KEY", "not allowed"),
        ("http://localhost:{port}/in", "HOOK_KEY", "not allowed"),
    ],
)
async def test_a_channel_leads_only_where_the_process_allows(
    conn: AsyncConnection, dsn: str, target: str, secret: str, word: str
) -> None:
    """A row names no other host, and carries no other secret there; what a CHECK lets pass, too."""
    await run_all(conn, "alter table agent.channel drop constraint target_is_a_host")
    async with web() as hook:
        await channel(conn, "webhook", target.format(port=hook.port), secret=secret)
        async with delivering(dsn, {"webhook": WebhookSender(post(hook.port))}):
            await send(conn, "webhook")
            ((state, said),) = await ended(conn)
    assert (state, word in str(said), hook.sent) == ("failed", True, [])


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.169.254.",
        "169.254.43518",
        "169.16689662",
        "2852039166",
        "0xA9FEA9FE",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "169.254.0251.0xfe",
        "025177524776",
        "[::ffff:169.254.169.254]",
        "[::FFFF:a9fe:a9fe]",
        "[::169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
        "[2002:a9fe:a9fe::]",
        "[fe80::1]",
        "[fe80::a9fe:a9fe%25eth0]",
        "169.254.169.254:80",
        "169.254.169.254?x",
        "169%2E254.169.254",
        "\uff11\uff16\uff19.254.169.254",
        "\u2460\u2465\u2468.254.169.254",
        "169\u3002254\u3002169\u3002254",
    ],
)
async def test_a_webhook_does_not_lead_to_the_keys_of_a_machine(
    conn: AsyncConnection, host: str
) -> None:
    """In no spelling: the row is refused, and neither a channel nor a row of the audit is left."""
    written = await value(conn, "select count(*) from agent.audit")
    await channel(conn, "webhook", "https://ops.acme.test:8443/in", secret="HOOK_KEY")
    change = "update agent.channel set target = 'http://' || %s || '/latest/meta-data'"
    error = await refused(conn, change, host, state="WA023")
    assert "of a webhook" in message_of(error)
    assert "Name the host" in message_of(error)
    add = "insert into agent.channel (name, kind, target, secret) values ('m', 'webhook', %s, 'K')"
    await refused(conn, add, f"https://{host}/", state="WA023")
    assert await column(conn, "select target from agent.channel") == [
        "https://ops.acme.test:8443/in"
    ]
    assert await value(conn, "select count(*) from agent.audit") == written + 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1:80", "[::1]:80", "10.1.2.3", "xn--bcher-kva.test", "a_b"]
)
async def test_other_hosts_are_decided_by_who_connects(conn: AsyncConnection, host: str) -> None:
    """A network of one's own can be allowed in the configuration."""
    await channel(conn, "webhook", f"http://{host}/in", secret="HOOK_KEY")


@pytest.mark.parametrize("column", ["target", "secret"])
async def test_a_channel_holds_no_key(conn: AsyncConnection, column: str) -> None:
    """Also one that could be the name of a variable."""
    await channel(conn, "webhook", "https://ops.acme.test/in", secret="HOOK_KEY")
    change = f"update agent.channel set {column} = {column} || '/' || %s"
    if column == "secret":
        change = "update agent.channel set secret = %s"
    key = "ghp_" + "a" * 36
    error = await refused(conn, change, key, state="23514")
    assert f'column "{column}"' in message_of(error)
    assert key not in message_of(error)


async def test_an_allowed_host_with_a_private_address_is_refused(
    conn: AsyncConnection, dsn: str
) -> None:
    """Unless its network is allowed, too."""
    rules = {"localhost": HostRules(frozenset({"HOOK_KEY"}))}
    await channel(conn, "webhook", "http://localhost/in", secret="HOOK_KEY")
    async with delivering(dsn, {"webhook": WebhookSender(Post(rules, SECRETS.get))}):
        await send(conn, "webhook")
        await until(conn, "select state = 'waiting_retry' from agent.run")
    assert "not public" in str(await value(conn, "select error ->> 'reason' from agent.run"))


@pytest.mark.parametrize(
    ("kind", "target", "secret"),
    [
        ("webhook", "ftp://acme.test/", "KEY"),
        ("webhook", "https://user:pass@acme.test/", "KEY"),
        ("webhook", "https://acme.test/?token=abc", "KEY"),
        ("webhook", "https://hooks.slack.com/services/T0/B0/x", "KEY"),
        ("webhook", "https://acme.test/", "whsec_c2VjcmV0"[:6] + " with a space"),
        ("email", "ann@acme.test, ben@acme.test", None),
        ("email", "ann@acme.test\nBcc: eve@evil.test", None),
        ("slack", "xoxb-123", None),
        ("slack", "", None),
    ],
)
async def test_a_channel_that_is_none_or_has_a_secret_is_refused(
    conn: AsyncConnection, kind: str, target: str, secret: str | None
) -> None:
    """By a constraint."""
    await refused(
        conn,
        "insert into agent.channel (tenant, name, kind, target, secret)"
        " values ('default', 'x', %s, %s, %s)",
        kind,
        target,
        secret,
        state="23514",
    )


async def test_an_email_is_sent_once(conn: AsyncConnection, dsn: str) -> None:
    """With the ID of the delivery as that of the message."""
    async with mailbox() as box:
        await channel(conn, "email", "ann@acme.test")
        async with delivering(dsn, {"email": smtp(box.port)}):
            delivery = await send(conn, "email", "Grüße.")
            assert [state for state, _ in await ended(conn)] == ["succeeded"]
    (message,) = box.messages
    assert (message["To"], message["Subject"]) == ("ann@acme.test", "A subject")
    assert message["Message-ID"] == f"<{delivery}@acme.test>"
    payload = message.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert payload.decode().strip() == "Grüße."


async def test_a_subject_cannot_add_a_header(conn: AsyncConnection, dsn: str) -> None:
    """Nor a recipient: control characters become spaces."""
    async with mailbox() as box:
        await channel(conn, "email", "ann@acme.test")
        async with delivering(dsn, {"email": smtp(box.port)}):
            await value(conn, "select agent.send('email', E'Hi\\r\\nBcc: eve@evil.test', '{}')")
            await ended(conn)
    assert box.messages[0]["Subject"] == "Hi Bcc: eve@evil.test"
    assert box.messages[0]["Bcc"] is None


async def test_what_a_mail_server_has_not_accepted_is_sent_again(
    conn: AsyncConnection, dsn: str
) -> None:
    """451 asks for another attempt; nothing listened at first."""
    async with mailbox() as box:
        await channel(conn, "email", "ann@acme.test")
        box.answers = ["451 later"]
        async with delivering(dsn, {"email": smtp(box.port)}):
            await send(conn, "email")
            await hurry(conn)
            assert [state for state, _ in await ended(conn)] == ["succeeded"]
    assert (box.received, len(box.messages)) == (2, 1)


async def test_a_mail_server_that_refuses_ends_the_delivery(
    conn: AsyncConnection, dsn: str
) -> None:
    """550 is permanent."""
    async with mailbox() as box:
        await channel(conn, "email", "ann@acme.test")
        box.recipient = "550 no such user"
        async with delivering(dsn, {"email": smtp(box.port)}):
            await send(conn, "email")
            ((state, said),) = await ended(conn)
    assert (state, "550" in str(said), box.received) == ("failed", True, 0)


@pytest.mark.parametrize("happened", [True, False])
async def test_an_email_with_an_unknown_outcome_waits_for_a_person(
    conn: AsyncConnection,
    dsn: str,
    happened: bool,  # noqa: FBT001 - a parameter
) -> None:
    """The server hung up before it answered: it is sent again only if a person says so."""
    async with mailbox() as box:
        await channel(conn, "email", "ann@acme.test")
        box.answers = [""]
        async with delivering(dsn, {"email": smtp(box.port)}):
            await send(conn, "email")
            await until(conn, "select state = 'needs_review' from agent.run")
            assert box.received == 1
            await value(conn, "select agent.resolve(run_id, %s) from agent.outbox", happened)
            assert [state for state, _ in await ended(conn)] == ["succeeded"]
    assert box.received == (1 if happened else 2)
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_killed_worker_repeats_a_webhook_and_asks_about_an_email(
    conn: AsyncConnection, dsn: str
) -> None:
    """An intent without a result."""
    async with web() as hook, mailbox() as box:
        await channel(conn, "webhook", f"http://127.0.0.1:{hook.port}/in", secret="HOOK_KEY")
        await channel(conn, "email", "ann@acme.test")
        for to in ("webhook", "email"):
            await send(conn, to)
        await run_all(
            conn,
            "insert into agent.step (run_id, seq, kind, content) select id, 0, 'intent',"
            " jsonb_build_object('call_id', 'delivery', 'name', 'deliver', 'idempotency_key', 'k')"
            " from agent.run",
        )
        senders = {"webhook": WebhookSender(post(hook.port)), "email": smtp(box.port)}
        async with delivering(dsn, senders):
            await until(conn, "select exists (select from agent.run where state = 'needs_review')")
            await until(conn, "select exists (select from agent.run where state = 'succeeded')")
    assert (len(hook.sent), box.received) == (1, 0)


async def test_a_message_commits_with_what_it_is_about(conn: AsyncConnection) -> None:
    """Rolled back, it was never sent; a second one of a key is the first one."""
    await channel(conn, "email", "ann@acme.test")
    await run_all(conn, "begin; select agent.send('email', '', '{}'); rollback")
    assert await value(conn, "select count(*) from agent.outbox") == 0
    keyed = "select agent_internal.enqueue_delivery('email', '', '{}', _key => 'order 7')::text"
    assert await value(conn, keyed) == await value(conn, keyed)
    assert await value(conn, "select count(*) from agent.run") == 1


@pytest.mark.parametrize(
    ("call", "word"),
    [
        ("'emial', '', '{}'", 'Did you mean "email"'),
        ("'off', '', '{}'", "disabled"),
        ("'email', '', '[]'", "object"),
        ("'email', '', '{}', _kind => 'webhook'", "kind"),
    ],
)
async def test_a_message_without_a_channel_is_refused(
    conn: AsyncConnection, call: str, word: str
) -> None:
    """With WA023."""
    await channel(conn, "email", "ann@acme.test")
    await channel(conn, "slack", "C123", name="off", enabled="false")
    error = await refused(conn, f"select agent_internal.enqueue_delivery({call})", state="WA023")
    assert word in message_of(error)


async def test_only_who_may_sends(conn: AsyncConnection, dsn: str) -> None:
    """A viewer, an approver or a developer does not, and sets no link."""
    await channel(conn, "email", "ann@acme.test")
    async with role(conn) as login:
        for grant in ("approver", "developer", "member"):
            await value(conn, f"select agent.grant_{grant}('{login}')")
        async with session(dsn, user=login) as own:
            for statement in (
                "select agent.send('email', '', '{}')",
                "insert into agent.outbox values ('default')",
                "update agent.channel set target = 'eve@evil.test'",
                "select * from agent.approval_link",
                "select agent_internal.link_token(null)",
            ):
                await refused(own, statement, state="42501")


async def test_messages_with_one_ordering_key_are_delivered_in_order(
    conn: AsyncConnection, dsn: str
) -> None:
    """A later one waits while an earlier one is retried."""
    async with web({"/in": reply(b"", "503 Busy")}) as hook:
        await channel(conn, "webhook", f"http://127.0.0.1:{hook.port}/in", secret="HOOK_KEY")
        for number in range(3):
            await value(
                conn,
                "select agent_internal.enqueue_delivery('webhook', %s, '{}', _ordering_key => 'a')",
                str(number),
            )
        async with delivering(dsn, {"webhook": WebhookSender(post(hook.port))}):
            await until(conn, "select exists (select from agent.run where state = 'waiting_retry')")
            hook.answers["/in"] = reply(b"ok")
            await hurry(conn)
            await ended(conn, 3)
    subjects = [json.loads(each.body)["subject"] for each in hook.sent]
    assert subjects == ["0", "0", "1", "2"]


ONLY = "insert into agent.egress_rule (scheme, host, port, methods) values"
POLICY = "insert into agent.policy (name, point, action, condition) values"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (f"{ONLY} ('https', 'other.test', 443, '{{{{POST}}}}')", "not among the egress rules"),
        (f"{ONLY} ('http', '127.0.0.1', {{port}}, '{{{{GET}}}}')", "not among the egress rules"),
        (f"{POLICY} ('quiet', 'egress', 'deny', 'true')", "quiet"),
        (f"{POLICY} ('ask', 'egress', 'require', 'true')", "ask"),
    ],
)
async def test_a_webhook_leaves_only_where_the_tenant_allows(
    conn: AsyncConnection, dsn: str, rules: str, said: str
) -> None:
    """As requests of tools do: by its egress rules and policies."""
    async with web() as hook:
        await channel(conn, "webhook", f"http://127.0.0.1:{hook.port}/in", secret="HOOK_KEY")
        await run_all(conn, rules.format(port=hook.port))
        async with delivering(dsn, {"webhook": WebhookSender(post(hook.port))}):
            await send(conn, "webhook")
            ((state, reason),) = await ended(conn)
    assert state == "failed"
    assert said in str(reason)
    assert not hook.sent


async def test_a_webhook_waits_for_the_rate_of_its_rule(conn: AsyncConnection, dsn: str) -> None:
    """It is delayed, not lost."""
    async with web() as hook:
        await channel(conn, "webhook", f"http://127.0.0.1:{hook.port}/in", secret="HOOK_KEY")
        await run_all(
            conn,
            "insert into agent.egress_rule (scheme, host, port, methods, requests_per_minute)"
            f" values ('http', '127.0.0.1', {hook.port}, '{{POST}}', 1)",
        )
        async with delivering(dsn, {"webhook": WebhookSender(post(hook.port))}):
            await send(conn, "webhook")
            await send(conn, "webhook")
            await until(
                conn,
                "select count(*) filter (where state = 'succeeded') = 1"
                " and count(*) filter (where state = 'waiting_retry') = 1 from agent.delivery",
            )
    assert len(hook.sent) == 1
