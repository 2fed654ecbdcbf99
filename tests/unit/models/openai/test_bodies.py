"""The OpenAI Chat Completions format, both ways, without a network."""

import json
from collections.abc import Iterable, Mapping

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import ConfigDict, TypeAdapter, with_config

from walagent.errors import ModelRejectedError, ModelUnavailableError
from walagent.message import (
    Example,
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
from walagent.models.openai import calls_by_schema, fake_server
from walagent.models.openai.request_body import body_of
from walagent.models.openai.response_body import error_body, reply_of

SPEC = ModelSpec("m", "openai", "gpt-x", max_output_tokens=1_000)
LOCAL = ModelSpec("m", "openai", "llama3.3:70b")
TOOLS = (
    ToolSpec("find", "Find it.", {"type": "object", "properties": {"q": {"type": "string"}}}),
    ToolSpec("stop", "Stop.", {"type": "object", "properties": {}}),
)
MESSAGES = (
    Message("user", (Text("where?"),)),
    Message(
        "assistant", (Text("so"), ToolCall("a", "find", {"q": "é"}), ToolCall("b", "stop", {}))
    ),
    Message("user", (ToolResult("a", "find", "no", is_error=True),)),
    Message("user", (ToolResult("b", "stop", "ok"),)),
)


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


def answer(message: Json, reason: Json = "stop", **fields: Json) -> dict[str, Json]:
    """Write a provider's answer."""
    return {"choices": [{"message": message, "finish_reason": reason}], **fields}


def read(given: Json, **fields: Json) -> Reply:
    """Read an answer to a plain request."""
    return reply_of(given, LOCAL, request(**fields))


@pytest.mark.parametrize("official", [True, False])
def test_a_body_is_what_the_sdks_own_types_describe(*, official: bool) -> None:
    """Unknown fields, wrong types and missing ones would all fail here."""
    strict = with_config(ConfigDict(extra="forbid"))(CompletionCreateParamsNonStreaming)
    given = request(choice=ToolChoice("named", "find"), parallel_calls=False)
    body = body_of(given, SPEC, official=official)
    assert read_out(TypeAdapter(strict).validate_python(body)) == body


def test_a_request_comes_back_as_it_was_sent() -> None:
    """Nothing is lost or moved on the wire."""
    sent = request(choice=ToolChoice("named", "find"), max_tokens=7, parallel_calls=False)
    assert fake_server.read(body_of(sent, SPEC, official=False), {}) == sent


def test_results_stand_directly_after_their_call_and_words_after_them() -> None:
    """However they were recorded."""
    messages = (*MESSAGES[:2], Message("user", (Text("hurry"),)), *MESSAGES[2:])
    body = body_of(request(messages=messages), SPEC, official=True)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    assert body["messages"][3]["content"] == "ERROR: no"


@pytest.mark.parametrize(
    ("model_id", "official", "name"),
    [
        ("gpt-4o", True, "max_completion_tokens"),
        ("anything", True, "max_completion_tokens"),
        ("openai/gpt-5", False, "max_completion_tokens"),
        ("azure/gpt-5-mini", False, "max_completion_tokens"),
        ("openrouter/openai/gpt-5", False, "max_completion_tokens"),
        ("groq/openai/gpt-oss-20b", False, "max_tokens"),
        ("o3-mini", False, "max_completion_tokens"),
        ("gpt-oss:20b", False, "max_tokens"),
        ("llama3.3:70b", False, "max_tokens"),
        ("olmo-2", False, "max_tokens"),
    ],
)
def test_the_output_limit_has_the_name_that_its_model_knows(
    model_id: str, *, official: bool, name: str
) -> None:
    """OpenAI's newer models refuse the old name, other servers ignore the new one."""
    body = body_of(request(), ModelSpec("m", "openai", model_id), official=official)
    assert [key for key in body if key.startswith("max")] == [name]


NEWEST = ModelSpec("m", "openai", "gpt-6.2-sol")
MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


@pytest.mark.parametrize("mode", ["native", "schema"])
def test_the_newest_models_get_a_mark_where_the_shared_prefix_ends(mode: str) -> None:
    """They write for a price, and match at marks alone: one behind the row is never read."""
    write = calls_by_schema.body_of if mode == "schema" else body_of
    once = write(request(continues=False), NEWEST, official=True)
    (system,) = once["messages"][0]["content"]
    assert MARK.items() <= system.items()
    assert system["text"].startswith("be brief")
    assert once["prompt_cache_options"] == {"mode": "explicit"}
    assert "prompt_cache_options" not in write(request(), NEWEST, official=True)


@pytest.mark.parametrize(
    ("spec", "official"),
    [
        (ModelSpec("m", "openai", "gpt-4o"), True),
        (ModelSpec("m", "openai", "gpt-5.4"), True),
        (NEWEST, False),
        (ModelSpec("m", "openai", "gpt-6-sol", "https://x.openai.azure.com/openai/v1"), True),
    ],
)
def test_no_other_server_gets_a_mark(spec: ModelSpec, *, official: bool) -> None:
    """Older models cache by themselves and without a price; other servers refuse the field."""
    body = body_of(request(continues=False), spec, official=official)
    assert body["messages"][0] == {"role": "system", "content": "be brief"}
    assert "prompt_cache_options" not in body


def test_a_marked_request_fits_the_types_of_the_sdk_and_comes_back() -> None:
    """Each field is one that the SDK knows."""
    strict = with_config(ConfigDict(extra="forbid"))(CompletionCreateParamsNonStreaming)
    sent = request(continues=False, max_tokens=7)
    body = body_of(sent, NEWEST, official=True)
    assert read_out(TypeAdapter(strict).validate_python(body)) == body
    assert not fake_server.read(body, {}).continues
    assert fake_server.read(body, {}).system == "be brief"


def test_the_cache_key_is_for_openai_alone_and_one_for_a_run() -> None:
    """Equal beginnings share few keys, the calls of one run share one."""
    key = body_of(request(run_id=1), SPEC, official=True)["prompt_cache_key"]
    assert key == body_of(request(run_id=1, messages=()), SPEC, official=True)["prompt_cache_key"]
    assert key == body_of(request(run_id=17), SPEC, official=True)["prompt_cache_key"]
    assert key != body_of(request(run_id=2), SPEC, official=True)["prompt_cache_key"]
    assert key != body_of(request(run_id=1, system="x"), SPEC, official=True)["prompt_cache_key"]
    assert "prompt_cache_key" not in body_of(request(), SPEC, official=False)


@pytest.mark.parametrize("mode", ["auto", "required", "none"])
def test_the_tool_choice_is_sent_by_its_name(mode: Json) -> None:
    """The names are the same, but for a named tool."""
    body = body_of(request(choice=ToolChoice(mode)), SPEC, official=True)
    assert body["tool_choice"] == mode


def test_without_tools_nothing_is_said_of_them() -> None:
    """OpenAI refuses a choice without tools."""
    body = body_of(request(tools=(), messages=(), parallel_calls=False), SPEC, official=True)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


def test_the_o_models_get_no_setting_for_parallel_calls() -> None:
    """They refuse the field."""
    spec = ModelSpec("m", "openai", "o3-mini")
    assert "parallel_tool_calls" not in body_of(request(parallel_calls=False), spec, official=True)
    assert (
        body_of(request(parallel_calls=False), SPEC, official=True)["parallel_tool_calls"] is False
    )


@pytest.mark.parametrize("model_id", ["gpt-5.6", "gpt-5.6-luna", "gpt-6-sol", "openai/gpt-6-luna"])
def test_models_that_refuse_tools_while_they_reason_do_not_reason(model_id: str) -> None:
    """Unless a parameter says otherwise; without tools they may."""
    spec = ModelSpec("m", "openai", model_id)
    assert body_of(request(), spec, official=True)["reasoning_effort"] == "none"
    given = request(parameters={"reasoning_effort": "low"})
    assert body_of(given, spec, official=True)["reasoning_effort"] == "low"
    assert "reasoning_effort" not in body_of(request(tools=()), spec, official=True)
    assert "reasoning_effort" not in body_of(request(), SPEC, official=True)


def test_parameters_are_laid_over_the_body() -> None:
    """What is ours cannot be set."""
    body = body_of(request(parameters={"temperature": 0}), SPEC, official=True)
    assert body["temperature"] == 0
    with pytest.raises(ModelRejectedError, match="parameter n "):
        body_of(request(parameters={"n": 5}), SPEC, official=True)


@pytest.mark.parametrize("name", ["tool_choice", "tools", "parallel_tool_calls", "max_tokens"])
def test_null_takes_out_a_field_that_is_ours(name: str) -> None:
    """Gateways refuse fields that others need."""
    given = request(parallel_calls=False)
    assert name in body_of(given, LOCAL, official=False)
    given = request(parallel_calls=False, parameters={name: None})
    assert name not in body_of(given, LOCAL, official=False)
    for needed in ("messages", "model"):
        with pytest.raises(ModelRejectedError, match=f"{needed} cannot be removed"):
            body_of(request(parameters={needed: None}), LOCAL, official=False)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, {"max_tokens": 4096}),
        ({"max_completion_tokens": True}, {"max_completion_tokens": 4096}),
        ({"max_completion_tokens": 500}, {"max_completion_tokens": 500}),
        ({"max_completion_tokens": 9_000}, {"max_completion_tokens": 4096}),
        ({"max_tokens": None, "max_completion_tokens": 500}, {"max_completion_tokens": 500}),
        ({"max_output_tokens": True}, {"max_output_tokens": 4096}),
        ({"max_tokens": None}, {}),
    ],
    ids=str,
)
def test_a_parameter_chooses_the_name_of_the_output_limit(
    parameters: dict[str, Json], expected: dict[str, Json]
) -> None:
    """A gateway hides a model that knows only one of them."""
    spec = ModelSpec("m", "openai", "prod-chat", parameters=parameters)
    for write in (body_of, calls_by_schema.body_of):
        body = write(request(), spec, official=False)
        assert {key: value for key, value in body.items() if key.startswith("max")} == expected
    with pytest.raises(ModelRejectedError, match="number of tokens, true or null"):
        body_of(request(parameters={"max_tokens": "many"}), LOCAL, official=False)


def test_deepseek_and_gemini_get_back_what_they_insist_on() -> None:
    """Also for a call that another model made, or whose reasoning was not kept."""
    deepseek = ModelSpec("m", "openai", "deepseek-chat")
    gemini = ModelSpec("m", "openai", "google/gemini-3-pro")
    sent = body_of(request(), deepseek, official=False)["messages"]
    assert [message.get("reasoning_content") for message in sent if "tool_calls" in message] == [""]
    sent = body_of(request(), gemini, official=False)["messages"]
    (calls,) = [message["tool_calls"] for message in sent if "tool_calls" in message]
    signature = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [call.get("extra_content") for call in calls] == [signature, None]


def test_deepseek_is_not_forced_while_it_thinks() -> None:
    """It refuses; that it called is checked."""
    forced = request(choice=ToolChoice("named", "find"))
    for model_id, thinking, expected in (
        ("deepseek-reasoner", None, "auto"),
        ("deepseek-v4", {"type": "enabled"}, "auto"),
        (
            "deepseek-reasoner",
            {"type": "disabled"},
            body_of(forced, LOCAL, official=False)["tool_choice"],
        ),
    ):
        spec = ModelSpec("m", "openai", model_id, parameters={"thinking": thinking})
        assert body_of(forced, spec, official=False)["tool_choice"] == expected


def test_a_transcript_keeps_its_prefix_byte_for_byte() -> None:
    """Prompt caches match bytes."""
    example = Example("t", "find", {"b": 1, "a": 2})
    bodies = [
        body_of(request(messages=MESSAGES[:n], examples=(example,)), SPEC, official=True)
        for n in (1, 2, 4)
    ]
    texts = [json.dumps(body["messages"]).removesuffix("]") for body in bodies]
    assert texts[1].startswith(texts[0])
    assert texts[2].startswith(texts[1])
    assert bodies[0]["tools"] == bodies[2]["tools"]


def test_unusable_arguments_are_shown_as_json() -> None:
    """llama.cpp and vLLM parse the arguments they read back, and fail on anything else."""
    messages = (MESSAGES[0], Message("assistant", (ToolCall("a", "find", None, "{bad"),)))
    body = body_of(request(messages=messages), SPEC, official=False)
    sent = body["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"invalid_arguments": "{bad"}


def test_reasoning_goes_back_to_the_kind_of_server_it_came_from() -> None:
    """Never to OpenAI itself, which knows no such field, nor from another provider."""
    reply = read(answer({"content": "x", "reasoning_content": "hm"}))
    messages = (MESSAGES[0], Message("assistant", reply.parts))
    local = body_of(request(messages=messages), LOCAL, official=False)
    official = body_of(request(messages=messages), SPEC, official=True)
    assert local["messages"][2]["reasoning_content"] == "hm"
    assert "reasoning_content" not in official["messages"][2]
    foreign = Message("assistant", (Thinking("anthropic", {"reasoning": "hm"}), Text("x")))
    body = body_of(request(messages=(MESSAGES[0], foreign)), LOCAL, official=False)
    assert body["messages"][2] == {"role": "assistant", "content": "x"}


def test_a_signature_on_a_call_goes_back_on_that_call() -> None:
    """Gemini refuses a transcript whose calls have lost theirs."""
    extra = {"google": {"thought_signature": "s"}}
    calls = [
        {"id": "1", "function": {"name": "find", "arguments": "{}"}},
        {"id": "2", "function": {"name": "find", "arguments": "{}"}, "extra_content": extra},
    ]
    reply = read(answer({"content": None, "tool_calls": calls}), messages=MESSAGES[:1])
    body = body_of(
        request(messages=(MESSAGES[0], Message("assistant", reply.parts))), LOCAL, official=False
    )
    sent = body["messages"][2]["tool_calls"]
    assert [call.get("extra_content") for call in sent] == [None, extra]


def test_an_answer_becomes_parts() -> None:
    """Cached tokens are part of the prompt's, here they stand apart."""
    given = answer(
        {
            "content": "let me",
            "tool_calls": [{"id": "c", "function": {"name": "find", "arguments": '{"q":"x"}'}}],
        },
        "tool_calls",
        model="gpt-x-1",
        usage={
            "prompt_tokens": 100,
            "completion_tokens": 9,
            "total_tokens": 109,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        },
    )
    parts = (Text("let me"), ToolCall("c", "find", {"q": "x"}))
    assert read(given) == Reply(parts, Stop.TOOL, Usage(10, 60, 30, 9), "gpt-x-1")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage()),
        ({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 30}, Usage(10, 0, 0, 20)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(0, 10)),
        ({"prompt_tokens": "x", "completion_tokens": -1}, Usage()),
    ],
    ids=str,
)
def test_odd_usage_is_read_as_far_as_it_makes_sense(usage: Json, expected: Usage) -> None:
    """Gemini counts thinking in the total only; others count wrongly or not at all."""
    assert read(answer({"content": "x"}, usage=usage)).usage == expected


CALL = {"id": "c", "function": {"name": "find", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("message", "reason", "stop"),
    [
        ({"content": "x"}, "stop", Stop.END),
        ({"content": "x"}, "tool_calls", Stop.END),
        ({"tool_calls": [CALL]}, "stop", Stop.TOOL),
        ({"tool_calls": [CALL]}, "function_call", Stop.TOOL),
        ({"tool_calls": [CALL]}, "length", Stop.LENGTH),
        ({"content": ""}, "length", Stop.LENGTH),
        ({"content": None, "refusal": "no"}, "stop", Stop.REFUSAL),
        ({"content": None}, "content_filter", Stop.REFUSAL),
        ({"content": "x"}, None, Stop.END),
        ({"content": "x"}, "", Stop.END),
        ({"tool_calls": [CALL]}, None, Stop.TOOL),
        ({"tool_calls": [CALL]}, "", Stop.TOOL),
        ({"tool_calls": [CALL]}, "eos", Stop.TOOL),
        ({"content": "x"}, "eos", Stop.END),
        ({"content": "x"}, "end_turn", Stop.END),
        ({"tool_calls": [CALL]}, "tool_use", Stop.TOOL),
        ({"content": "x"}, "STOP", Stop.END),
        ({"content": "x"}, "MAX_TOKENS", Stop.LENGTH),
        ({"content": "x"}, "model_length", Stop.LENGTH),
        ({"content": "x"}, "SAFETY", Stop.REFUSAL),
        ({"function_call": CALL["function"]}, "function_call", Stop.TOOL),
    ],
    ids=str,
)
def test_every_reason_to_stop_has_a_meaning(message: Json, reason: str, stop: Stop) -> None:
    """It waits for tools exactly when it called some, whatever the server says."""
    assert read(answer(message, reason)).stop is stop


@pytest.mark.parametrize(
    "given",
    [
        answer({"content": ""}, None),
        answer({"content": None, "tool_calls": []}, ""),
        answer({"content": "x"}, 7),
        answer({"content": "x"}, "error"),
        answer({"content": "x"}, "insufficient_system_resource"),
        answer("x"),
        {"choices": []},
        {"choices": None},
        {},
        None,
        "<html>",
    ],
    ids=str,
)
def test_what_is_no_whole_answer_is_worth_a_retry(given: Json) -> None:
    """A cut answer is never taken for a finished one."""
    with pytest.raises(ModelUnavailableError, match=r"openai llama.* gave no usable answer"):
        read(given)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"function": {"name": "f"}}, ToolCall("call_4_0", "f", {})),
        ({"id": "", "function": {"name": "f", "arguments": ""}}, ToolCall("call_4_0", "f", {})),
        (
            {"id": "z", "function": {"name": "f", "arguments": {"a": 1}}},
            ToolCall("z", "f", {"a": 1}),
        ),
        ({"id": "z", "function": {"name": "f", "arguments": "{"}}, ToolCall("z", "f", None, "{")),
        ({"id": "z", "function": {"name": "f", "arguments": [1]}}, ToolCall("z", "f", None, "[1]")),
        ({"id": "a", "function": {"name": "f"}}, ToolCall("call_4_0", "f", {})),
    ],
    ids=str,
)
def test_calls_of_odd_servers_are_read(call: Json, expected: ToolCall) -> None:
    """Missing or repeated ids, objects for texts, nothing for no arguments."""
    assert read(answer({"tool_calls": [call]})).parts == (expected,)


@pytest.mark.parametrize("call", [None, 7, {}, {"function": None}, {"function": {"name": 1}}])
def test_calls_of_unknown_shape_are_left_out(call: Json) -> None:
    """Servers that imitate the format send what they like."""
    assert read(answer({"content": "x", "tool_calls": [call]})).parts == (Text("x"),)


def test_text_in_pieces_is_joined() -> None:
    """Some servers answer in the form that requests may have."""
    pieces = [{"type": "text", "text": "a"}, None, {"type": "text", "text": "b"}]
    assert read(answer({"content": pieces})).text == "ab"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"error": {"code": 429, "message": "slow"}}, (429, "", "slow")),
        ({"error": {"code": "429", "message": "slow"}}, (429, "", "slow")),
        ({"error": {"code": "busy", "message": "slow"}}, (None, "busy", "slow")),
        ({"error": {"message": "slow"}}, (None, "", "slow")),
        ({"error": "slow"}, (None, "", "slow")),
        ([{"error": {"code": 400, "status": "X", "message": "no"}}], (400, "X", "no")),
        ({"choices": [{}], "error": {"message": "x"}}, (None, "", "x")),
        (
            {"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "x"}}]},
            (502, "", "x"),
        ),
        ({"choices": None, "error": {"message": "x"}}, (None, "", "x")),
        (answer({"content": "x"}, error={"message": "x"}), None),
        ({"error": None}, None),
        (None, None),
    ],
    ids=str,
)
def test_an_error_in_a_successful_answer_is_found(given: Json, expected: Json) -> None:
    """Gateways answer 200 when the provider behind them failed."""
    found = error_body(given)
    assert (found and (found.status, found.code, found.message)) == expected


USAGES: list[tuple[dict[str, Json], Usage]] = [
    ({"prompt_tokens": 5.0, "completion_tokens": 3.0}, Usage(5, 0, 0, 3)),
    ({"input_tokens": 5, "output_tokens": 3}, Usage(5, 0, 0, 3)),
    (
        {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 7},
        Usage(5, 7, 0, 3),
    ),
    (
        {
            "prompt_tokens": 50,
            "completion_tokens": 30,
            "total_tokens": 80,
            "prompt_cache_hit_tokens": 40,
            "prompt_cache_miss_tokens": 10,
        },
        Usage(10, 40, 0, 30),
    ),
    ({"prompt_cache_hit_tokens": 40, "prompt_cache_miss_tokens": 10}, Usage(10, 40)),
    ({"prompt_tokens": 50, "cached_tokens": 20}, Usage(30, 20)),
    ({"input_tokens": 50, "input_tokens_details": {"cached_tokens": 20}}, Usage(30, 20)),
    ({"prompt_tokens": 50, "prompt_tokens_details": {"cache_read_tokens": 20}}, Usage(30, 20)),
    (
        {
            "promptTokenCount": 50,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 7,
            "totalTokenCount": 62,
        },
        Usage(50, 0, 0, 12),
    ),
    ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 30}, Usage(5, 0, 0, 25)),
]


@pytest.mark.parametrize(("usage", "expected"), USAGES, ids=str)
def test_counts_have_several_names(usage: Json, expected: Usage) -> None:
    """A count that is not found is charged at the full price, or not at all."""
    assert read(answer({"content": "x"}, usage=usage)).usage == expected


def test_an_answer_that_cannot_be_used_has_its_usage() -> None:
    """The provider charges for it, so budgets count it."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    for given in (answer({"content": "x"}, "abort", usage=usage), {"usage": usage}):
        with pytest.raises(ModelUnavailableError) as caught:
            read(given)
        assert caught.value.usage == Usage(100, 0, 0, 20)


def test_usage_stands_in_several_places() -> None:
    """Groq has it under a name of its own, Moonshot in the choice."""
    counts = {"prompt_tokens": 1, "completion_tokens": 2}
    given = answer({"content": "x"}, x_groq={"usage": counts})
    assert read(given).usage == Usage(1, 0, 0, 2)
    given = answer({"content": "x"})
    given["choices"][0]["usage"] = counts
    assert read(given).usage == Usage(1, 0, 0, 2)


def test_a_filter_that_stopped_an_answer_is_named() -> None:
    """Half a text does not say that it is one."""
    assert read(answer({"content": "half"}, "content_filter")).why == "content_filter"
    assert read(answer({"content": "half"}, "SAFETY")).why == "safety"
    assert not read(answer({"content": "whole"})).why
