"""The Anthropic Messages format, both ways, without a network."""

from collections.abc import Iterable, Mapping

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from pydantic import ConfigDict, TypeAdapter, with_config

from walagent.errors import ModelRejectedError, ModelUnavailableError
from walagent.message import (
    Json,
    Message,
    ModelSpec,
    Reply,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    ToolSpec,
    Usage,
)
from walagent.models.anthropic import fake_server
from walagent.models.anthropic.request_body import body_of
from walagent.models.anthropic.response_body import reply_of

SPEC = ModelSpec("m", "anthropic", "claude-x", max_output_tokens=1_000)
TOOLS = (
    ToolSpec("find", "Find it.", {"type": "object", "properties": {"q": {"type": "string"}}}),
    ToolSpec("stop", "Stop.", {"type": "object", "properties": {}}),
)
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
MESSAGES = (
    Message("user", (Text("where?"),)),
    Message("assistant", (Thinking("anthropic", THOUGHT), Text("so"), ToolCall("a", "find", {}))),
    Message("user", (ToolResult("a", "find", "no", is_error=True), Text("again"))),
)
HEADERS = {"anthropic-version": "x"}


def read_out(value: Json) -> Json:
    """Give *value* with its lazily checked parts checked."""
    if isinstance(value, Mapping):
        return {key: read_out(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [read_out(item) for item in value]
    return value


def request(**fields: Json) -> Request:
    """Write a request with everything in it."""
    given = {"system": "be brief", "messages": MESSAGES, "tools": TOOLS, **fields}
    return Request(**given)


def answer(*blocks: Json, reason: Json = "end_turn", **fields: Json) -> dict[str, Json]:
    """Write a provider's answer."""
    return {"content": list(blocks), "stop_reason": reason, "model": "claude-x-1", **fields}


def read(given: Json) -> Reply:
    """Read an answer to a plain request."""
    return reply_of(given, SPEC, request())


def test_a_body_is_what_the_sdks_own_types_describe() -> None:
    """Unknown fields, wrong types and missing ones would all fail here."""
    strict = with_config(ConfigDict(extra="forbid"))(MessageCreateParamsNonStreaming)
    body = body_of(request(), SPEC)
    assert read_out(TypeAdapter(strict).validate_python(body)) == body


def test_a_request_comes_back_as_it_was_sent() -> None:
    """Nothing is lost or moved on the wire."""
    sent = request(choice=ToolChoice("named", "find"), max_tokens=7, parallel_calls=False)
    assert fake_server.read(body_of(sent, SPEC), HEADERS) == sent


def test_the_cache_is_marked_where_the_shared_prefix_ends() -> None:
    """Tools come before the system prompt, so one mark covers both."""
    mark = {"type": "ephemeral"}
    body = body_of(request(), SPEC)
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, None]
    assert body["system"] == [{"type": "text", "text": "be brief", "cache_control": mark}]
    body = body_of(request(system=""), SPEC)
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, mark]


def test_the_end_is_marked_if_another_call_reads_it() -> None:
    """A write that is never read costs more than none."""
    assert body_of(request(), SPEC)["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in body_of(request(continues=False), SPEC)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), {"type": "auto"}),
        (ToolChoice("required"), {"type": "any"}),
        (ToolChoice("named", "stop"), {"type": "tool", "name": "stop"}),
    ],
)
def test_the_tool_choice_is_translated(choice: ToolChoice, expected: dict[str, Json]) -> None:
    """With the switch for parallel calls inside it."""
    assert body_of(request(choice=choice), SPEC)["tool_choice"] == expected
    one = body_of(request(choice=choice, parallel_calls=False), SPEC)["tool_choice"]
    assert one == {**expected, "disable_parallel_tool_use": True}


@pytest.mark.parametrize(
    ("model_id", "parameters"),
    [
        ("claude-sonnet-5-5", {}),
        ("claude-fable-5-1", {}),
        ("claude-x", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    ],
)
def test_a_model_that_cannot_be_forced_is_left_free(model_id: str, parameters: Json) -> None:
    """It would refuse the request; whether the call came is checked anyway."""
    spec = ModelSpec("m", "anthropic", model_id)
    for mode in ("required", "named"):
        asked = request(choice=ToolChoice(mode, "find"), parameters=parameters)
        assert body_of(asked, spec)["tool_choice"] == {"type": "auto"}
    asked = request(choice=ToolChoice("none"), parameters=parameters)
    assert body_of(asked, spec)["tool_choice"] == {"type": "none"}


def test_thinking_goes_back_only_to_the_model_that_wrote_it() -> None:
    """A thread may change its model; another's blocks are refused."""
    reply = read(answer(THOUGHT, {"type": "text", "text": "so"}))
    messages = (MESSAGES[0], Message("assistant", reply.parts))
    for model_id, expected in (("claude-x", [THOUGHT]), ("claude-y", [])):
        body = body_of(request(messages=messages), ModelSpec("m", "anthropic", model_id))
        assert body["messages"][1]["content"][:-1] == expected


def test_forbidding_tools_keeps_them_in_the_request() -> None:
    """Leaving them out would change the prefix and miss the cache."""
    body = body_of(request(choice=ToolChoice("none"), parallel_calls=False), SPEC)
    assert body["tool_choice"] == {"type": "none"}
    assert len(body["tools"]) == 2


def test_parameters_are_laid_over_the_body() -> None:
    """Also those that the SDK's `create` has no argument for."""
    body = body_of(request(parameters={"temperature": 0, "cache_control": None}), SPEC)
    assert body["temperature"] == 0
    assert "cache_control" not in body
    with pytest.raises(ModelRejectedError):
        body_of(request(parameters={"max_tokens": 99_999}), SPEC)


def test_what_the_api_would_refuse_is_not_sent() -> None:
    """Blank text, another provider's thinking, its ids, and turns of which nothing is left."""
    messages = (
        Message("user", (Text("q"),)),
        Message("assistant", (Thinking("openai", {}), Text(" \n"), ToolCall("f.x:0", "find", {}))),
        Message("user", (ToolResult("f.x:0", "find", ""),)),
        Message("assistant", (Text(""),)),
    )
    body = body_of(request(messages=messages, system=""), SPEC)
    back = fake_server.read(body, HEADERS)
    assert "system" not in body
    assert [len(message.parts) for message in back.messages] == [1, 1, 1]
    call, result = back.messages[1].parts[0], back.messages[2].parts[0]
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert call.id == result.call_id


def test_unusable_arguments_are_shown_as_json() -> None:
    """The model sees what it sent; its format allows objects only."""
    messages = (
        Message("user", (Text("q"),)),
        Message("assistant", (ToolCall("a", "find", None, "{bad"),)),
        Message("user", (ToolResult("a", "find", "not JSON", is_error=True),)),
    )
    body = body_of(request(messages=messages), SPEC)
    assert body["messages"][1]["content"][0]["input"] == {"invalid_arguments": "{bad"}


def test_an_answer_becomes_parts_in_their_order() -> None:
    """Thinking is kept as it came, to be replayed."""
    reply = read(
        answer(
            THOUGHT,
            {"type": "text", "text": "let me"},
            {"type": "tool_use", "id": "t1", "name": "find", "input": {"q": "x"}},
            reason="tool_use",
            usage={
                "input_tokens": 5,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": None,
                "output_tokens": 9,
            },
        )
    )
    assert reply == Reply(
        (
            Thinking("anthropic:claude-x", THOUGHT),
            Text("let me"),
            ToolCall("t1", "find", {"q": "x"}),
        ),
        Stop.TOOL,
        Usage(5, 100, 0, 9),
        "claude-x-1",
    )


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", Stop.END),
        ("stop_sequence", Stop.END),
        ("max_tokens", Stop.LENGTH),
        ("model_context_window_exceeded", Stop.LENGTH),
        ("pause_turn", Stop.LENGTH),
        ("refusal", Stop.REFUSAL),
    ],
)
def test_every_reason_to_stop_has_a_meaning(reason: str, stop: Stop) -> None:
    """All that the SDK's type lists."""
    assert read(answer(reason=reason)).stop is stop


@pytest.mark.parametrize(
    "given",
    [
        answer(reason=None),
        answer(reason="made_up"),
        {"content": "x", "stop_reason": "end_turn"},
        {"type": "error"},
        {},
        [],
        None,
        "<html>",
    ],
    ids=str,
)
def test_what_is_no_whole_answer_is_worth_a_retry(given: Json) -> None:
    """A cut answer is never taken for a finished one."""
    with pytest.raises(ModelUnavailableError, match="anthropic claude-x gave no usable answer"):
        read(given)


@pytest.mark.parametrize(
    "block",
    [None, 7, {}, {"type": "text"}, {"type": "text", "text": 7}, {"type": "tool_use"}, {"type": 1}],
    ids=str,
)
def test_blocks_of_unknown_shape_are_left_out(block: Json) -> None:
    """Servers that imitate the format send what they like."""
    assert read(answer(block, {"type": "text", "text": "x"})).parts == (Text("x"),)


def test_odd_figures_in_the_usage_count_as_nothing() -> None:
    """Negative, text, missing."""
    usage = {"input_tokens": -1, "cache_read_input_tokens": "9", "output_tokens": 3}
    assert read(answer(usage=usage)).usage == Usage(output_tokens=3)
    assert read(answer(usage=[1])).usage == Usage()
