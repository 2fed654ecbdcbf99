"""What each answer of a receiver means: sent, tried again, or the end of the delivery."""

from dataclasses import replace

from tests.helpers.mailbox import mailbox
from tests.helpers.web import reply, web
from tests.integration.outbox.sending import SECRETS, post
from tests.unit.outbox.test_text import DELIVERY
from walagent.errors import DeliveryDelayedError, DeliveryRefusedError, OutcomeUnknownError
from walagent.outbox.email import EmailSender, SmtpServer
from walagent.outbox.sender import Sender
from walagent.outbox.slack import SlackApp, SlackSender
from walagent.outbox.webhook import WebhookSender
from walagent.store.outbox import Delivery

SENT = None
AGAIN, ENDS, UNKNOWN = DeliveryDelayedError, DeliveryRefusedError, OutcomeUnknownError

# Of a webhook, and of an incoming webhook of Slack.
OF_HTTP = {
    200: SENT, 201: SENT, 202: SENT, 204: SENT,
    301: AGAIN, 302: AGAIN, 307: AGAIN, 308: AGAIN,  # not followed; a deployment might be under way
    400: ENDS, 401: ENDS, 403: ENDS, 404: ENDS, 405: ENDS, 409: ENDS, 410: ENDS, 413: ENDS,
    415: ENDS, 422: ENDS, 431: ENDS, 451: ENDS,
    408: AGAIN, 425: AGAIN, 429: AGAIN,
    500: AGAIN, 501: AGAIN, 502: AGAIN, 503: AGAIN, 504: AGAIN, 520: AGAIN, 599: AGAIN,
}  # fmt: skip

JSON, HTML, TEXT = "application/json", "text/html", "text/plain"
# Of Slack's Web API: status, type, body, Retry-After; and the wait that follows from it.  What is
# not JSON comes from a proxy.
OF_SLACK = (
    (200, JSON, '{"ok": true, "ts": "1"}', "", SENT, None),
    (200, JSON, '{"ok": false, "error": "channel_not_found"}', "", ENDS, None),
    (200, JSON, '{"ok": false, "error": "invalid_auth"}', "", ENDS, None),
    (200, JSON, '{"ok": false}', "", ENDS, None),
    (200, JSON, '{"ok": false, "error": "ratelimited"}', "", AGAIN, None),
    (200, JSON, '{"ok": false, "error": "internal_error"}', "", AGAIN, None),
    (200, JSON, '{"ok": false, "error": "fatal_error"}', "", AGAIN, None),
    (200, JSON, '{"ok": false, "error": "service_unavailable"}', "", AGAIN, None),
    (404, HTML, "<h1>Not found</h1>", "", ENDS, None),
    (429, JSON, '{"ok": false, "error": "ratelimited"}', "30", AGAIN, 30.0),
    (429, JSON, '{"ok": false, "error": "rate_limited"}', "soon", AGAIN, None),
    (429, HTML, "<p>Slow down.</p>", "30", AGAIN, 30.0),
    (500, JSON, '{"ok": false, "error": "unknown"}', "", AGAIN, None),
    (502, HTML, "<h1>Bad gateway</h1>", "", AGAIN, None),
    (503, HTML, "<h1>Maintenance</h1>", "60", AGAIN, 60.0),
    (503, TEXT, "upstream connect error", "", AGAIN, None),
    (503, JSON, "{", "", AGAIN, None),
    (200, TEXT, "ok", "", AGAIN, None),
)

# Of a server of SMTP: its answer to the recipient, and to the message.
OF_SMTP = (
    (None, "250 accepted", SENT),
    ("450 mailbox busy", "", AGAIN),
    ("451 try again", "", AGAIN),
    ("452 full", "", AGAIN),
    ("550 no such mailbox", "", ENDS),
    ("553 not allowed", "", ENDS),
    (None, "421 going down", AGAIN),
    (None, "451 greylisted", AGAIN),
    (None, "452 full", AGAIN),
    (None, "552 too large", ENDS),
    (None, "554 rejected", ENDS),
    (None, "", UNKNOWN),  # hangs up: it might have the message
)


async def outcome(sender: Sender, delivery: Delivery) -> tuple[type[Exception] | None, object]:
    """Send a message; return the error's class, and the wait that it asks for."""
    try:
        await sender.send(delivery, None)
    except (DeliveryDelayedError, DeliveryRefusedError, OutcomeUnknownError) as error:
        return type(error), getattr(error, "retry_after", None)
    return None, None


async def test_every_status_of_a_webhook() -> None:
    """As docs/notifications.md says; and for an incoming webhook of Slack the same."""
    found, of_slack = {}, {}
    async with web() as server:
        url = f"http://127.0.0.1:{server.port}/in"
        hook = replace(DELIVERY, kind="webhook", target=url, secret="HOOK_KEY")
        incoming = replace(DELIVERY, target="", secret="HOOK")
        to = post(server.port, {**SECRETS, "HOOK": url})
        for status in OF_HTTP:
            server.answers["/in"] = reply(b"", f"{status} Said")
            found[status], _ = await outcome(WebhookSender(to), hook)
            of_slack[status], _ = await outcome(SlackSender(to, SlackApp()), incoming)
    assert found == OF_HTTP
    assert of_slack == OF_HTTP


async def test_a_webhook_waits_as_long_as_its_receiver_asks() -> None:
    """When it is limited, and when it is down."""
    waits = []
    async with web() as server:
        hook = replace(
            DELIVERY, target=f"http://127.0.0.1:{server.port}/in", kind="webhook", secret="HOOK_KEY"
        )
        for status, wait in (("429 Slow", "7"), ("503 Down", "90"), ("503 Down", "")):
            headers = {"Retry_After": wait} if wait else {}
            server.answers["/in"] = reply(b"", status, **headers)
            waits.append(await outcome(WebhookSender(post(server.port)), hook))
    assert waits == [(AGAIN, 7.0), (AGAIN, 90.0), (AGAIN, None)]


async def test_every_answer_of_slack() -> None:
    """By its reason, else by its status."""
    found = []
    async with web() as server:
        app = SlackApp("BOT", None, f"http://127.0.0.1:{server.port}/api/")
        for status, content, body, wait, _, _ in OF_SLACK:
            headers = {"Content_Type": content} | ({"Retry_After": wait} if wait else {})
            answer = reply(body.encode(), f"{status} Said", **headers)
            server.answers["/api/chat.postMessage"] = answer
            found.append(await outcome(SlackSender(post(0), app), DELIVERY))
    assert found == [(kind, wait) for *_, kind, wait in OF_SLACK]


async def test_every_answer_of_a_mail_server() -> None:
    """From 500 on the same message fails again; without an answer, a person decides."""
    found = []
    delivery = replace(DELIVERY, kind="email", target="ann@acme.test")
    async with mailbox() as server:
        smtp = SmtpServer("127.0.0.1", server.port, "walagent <desk@acme.test>", security="none")
        for recipient, answer, _ in OF_SMTP:
            server.recipient, server.answers = recipient, [answer]
            found.append((await outcome(EmailSender(smtp, SECRETS.get), delivery))[0])
    assert found == [expected for _, _, expected in OF_SMTP]
