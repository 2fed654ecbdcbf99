"""The words of a message, and what the senders need."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from walagent.errors import ConfigError
from walagent.outbox import slack
from walagent.outbox.slack import SlackApp, SlackSender
from walagent.outbox.text import text_of
from walagent.outbox.webhook import Post
from walagent.store.outbox import Delivery

DELIVERY = Delivery(
    "0b7c2b1e-5c1f-4a53-9a59-5f0f2b8e5f0d", "default", "ops", "slack", "C123", None,
    "approval.requested", "Approval 1", {}, None, datetime(2026, 1, 1, tzinfo=UTC),
)  # fmt: skip


def test_each_field_is_one_line() -> None:
    """The key of a row can have line breaks, and looks like no other field."""
    body = {"key": "1\narguments: {}", "agent": "desk", "arguments": {"amount": 50}, "risk": None}
    assert text_of(replace(DELIVERY, body=body), None).splitlines() == [
        'key: "1\\narguments: {}"',
        "agent: desk",
        'arguments: {"amount":50}',
    ]


def test_a_text_is_as_it_was_given() -> None:
    """With its line breaks; the link follows."""
    text = text_of(replace(DELIVERY, body={"text": "a\nb", "data": 1}), "https://x.test/")
    assert text.startswith("a\nb\n\n")
    assert text.endswith("\nhttps://x.test/")


def test_what_is_not_seen_is_shown_and_what_is_cut_is_said() -> None:
    """People decide on it: also in values of objects, names, and a text of its own."""
    body = {"n\u200bote": "goodwill\u202e", "arguments": {"note": "a\u2066b"}}
    assert text_of(replace(DELIVERY, body=body), None).splitlines() == [
        'n\\u{200b}ote: "goodwill\\u{202e}"', 'arguments: {"note":"a\\u{2066}b"}'
    ]  # fmt: skip
    assert text_of(replace(DELIVERY, body={"text": "a\u202eb"}), None) == "a\\u{202e}b"
    for body in ({"note": "x" * 5000}, {"text": "x" * 30_000}):
        said = text_of(replace(DELIVERY, body=body), None)
        assert f"(cut, {len(*body.values()):,} characters)" in said


def test_an_app_in_slack_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon says so when it starts, not when it sends."""
    monkeypatch.setattr(slack, "find_spec", lambda _: None)  # tests have it installed
    post = Post({}, {}.get)
    SlackSender(post, SlackApp())
    with pytest.raises(ConfigError, match="slack"):
        SlackSender(post, SlackApp("BOT"))
