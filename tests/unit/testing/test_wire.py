"""What the fake provider refuses: a check that never fails would prove nothing of the providers."""

import copy
from collections.abc import Callable

import pytest

from walagent.message import (
    Json,
    Message,
    ModelSpec,
    Request,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from walagent.models.anthropic import request_body as anthropic_body
from walagent.models.anthropic.fake_server import MESSAGES
from walagent.models.openai import request_body as openai_body
from walagent.models.openai.fake_server import CHAT
from walagent.models.wire_format import WireError

REQUEST = Request(
    "be brief",
    (
        Message("user", (Text("where?"),)),
        Message("assistant", (Text("so"), ToolCall("a", "find", {}), ToolCall("b", "find", {}))),
        Message("user", (ToolResult("a", "find", "x"), ToolResult("b", "find", "y"), Text("z"))),
    ),
    (ToolSpec("find", "Find it.", {"type": "object", "properties": {}}),),
)
HEADERS = {"anthropic-version": "2023-06-01"}

Spoil = Callable[[Json], object]

ANTHROPIC: dict[str, tuple[Spoil, str]] = {
    "an unknown field": (lambda body: body.update(n=1), "extra inputs"),
    "no output limit": (lambda body: body.pop("max_tokens"), "max_tokens"),
    "tools left out": (lambda body: body.pop("tools"), "required when the messages use tools"),
    "a bad tool name": (lambda body: body["tools"][0].update(name="a.b"), "tools.name"),
    "a schema of no object": (
        lambda body: body["tools"][0].update(input_schema={"type": "string"}),
        "input_schema",
    ),
    "a choice that is not there": (
        lambda body: body.update(tool_choice={"type": "tool", "name": "x"}),
        "not found in tools",
    ),
    "too many cache marks": (
        lambda body: body.update(system=[{**body["system"][0]} for _ in range(5)]),
        "maximum of 4",
    ),
    "no messages": (lambda body: body.update(messages=[]), "at least one message"),
    "two turns of one role": (lambda body: body["messages"].pop(1), "alternate"),
    "an empty turn": (lambda body: body["messages"][0].update(content=[]), "not be empty"),
    "blank text": (
        lambda body: body["messages"][0]["content"][0].update(text=" "),
        "must contain text",
    ),
    "a missing result": (lambda body: body["messages"][2]["content"].pop(0), "expected"),
    "a result of nothing": (
        lambda body: body["messages"][2]["content"][0].update(tool_use_id="c"),
        "expected",
    ),
    "results after words": (lambda body: body["messages"][2]["content"].reverse(), "come first"),
    "a call without its results": (lambda body: body["messages"].pop(2), "the last message"),
    "an id twice": (
        lambda body: body["messages"][1]["content"][2].update(id="a"),
        "invalid or taken",
    ),
    "a strange id": (
        lambda body: body["messages"][1]["content"][1].update(id="a.b"),
        "invalid or taken",
    ),
    "arguments of no object": (
        lambda body: body["messages"][1]["content"][1].update(input="{}"),
        "should be an object",
    ),
    "a block of the wrong side": (
        lambda body: body["messages"][0]["content"].append(body["messages"][1]["content"][1]),
        "cannot be the user's",
    ),
}

OPENAI: dict[str, tuple[Spoil, str]] = {
    "an unknown field": (lambda body: body.update(system="x"), "extra inputs"),
    "no model": (lambda body: body.pop("model"), "model"),
    "options of no stream": (
        lambda body: body.update(stream_options={"include_usage": True}),
        "only with stream",
    ),
    "two output limits": (lambda body: body.update(max_completion_tokens=1), "exclude"),
    "a choice without tools": (lambda body: body.pop("tools"), "only allowed when tools"),
    "a choice that is not there": (
        lambda body: body.update(tool_choice={"type": "function", "function": {"name": "x"}}),
        "not found in tools",
    ),
    "a strange choice": (lambda body: body.update(tool_choice="any"), "unknown"),
    "a bad tool name": (
        lambda body: body["tools"][0]["function"].update(name="a b"),
        "tools.function.name",
    ),
    "no messages": (lambda body: body.update(messages=body["messages"][:1]), "at least one"),
    "two turns of one role": (
        lambda body: body["messages"].insert(1, body["messages"][1]),
        "alternate",
    ),
    "a missing result": (lambda body: body["messages"].pop(3), "expected"),
    "a result of nothing": (
        lambda body: body["messages"][3].update(tool_call_id="c"),
        "must follow its call",
    ),
    "a result before its call": (
        lambda body: body["messages"].insert(1, body["messages"].pop(3)),
        "must follow its call",
    ),
    "a call without its results": (
        lambda body: body.update(messages=body["messages"][:3]),
        "the last message",
    ),
    "arguments that are no JSON": (
        lambda body: body["messages"][2]["tool_calls"][0]["function"].update(arguments="{"),
        "should be a JSON object",
    ),
    "an id twice": (
        lambda body: body["messages"][2]["tool_calls"][1].update(id="a"),
        "is taken",
    ),
    "an empty reply": (
        lambda body: body["messages"][2].update(content=None, tool_calls=[]),
        "content or tool_calls",
    ),
    "an unknown role": (lambda body: body["messages"][1].update(role="robot"), "unknown role"),
}


@pytest.mark.parametrize("what", ANTHROPIC)
def test_messages_refuse(what: str) -> None:
    """Each in a body that is right but for this."""
    spoil, complaint = ANTHROPIC[what]
    body = anthropic_body.body_of(REQUEST, ModelSpec("m", "anthropic", "x"))
    assert MESSAGES.read(copy.deepcopy(body), HEADERS) == REQUEST
    spoiled = copy.deepcopy(body)
    spoil(spoiled)
    with pytest.raises(WireError, match=complaint):
        MESSAGES.read(spoiled, HEADERS)


@pytest.mark.parametrize("what", OPENAI)
def test_chat_refuses(what: str) -> None:
    """Each in a body that is right but for this."""
    spoil, complaint = OPENAI[what]
    body = openai_body.body_of(REQUEST, ModelSpec("m", "openai", "x"), official=False)
    CHAT.read(copy.deepcopy(body), {})
    spoiled = copy.deepcopy(body)
    spoil(spoiled)
    with pytest.raises(WireError, match=complaint):
        CHAT.read(spoiled, {})


def test_messages_need_a_version() -> None:
    """Without the header, Anthropic refuses every request."""
    body = anthropic_body.body_of(REQUEST, ModelSpec("m", "anthropic", "x"))
    with pytest.raises(WireError, match="anthropic-version"):
        MESSAGES.read(body, {})
