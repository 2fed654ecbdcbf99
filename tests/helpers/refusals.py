"""What providers refuse: status, body, and what walagent does about it.

A table, and a server that answers with it.  Each body is the provider's, where it is known.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Any, Literal, Self

from walagent.message import Json, ModelSpec
from walagent.models.replies import as_array, as_object
from walagent.testing.http_server import HttpServer, Incoming, Outgoing

Body = dict[str, Json]
Acts = Literal["fails", "pauses", "waits", "retries"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that a provider refuses.

    Args:
        when: whether it refuses a request.
        status, body, headers: of its answer; a list of values is a stream of them.
        acts: what becomes of the run, and after how many seconds.
        words: what its error says.
        avoided: walagent never sends such a request; else a parameter or the account is the cause.
        parameters: that bring it about.
    """

    name: str
    provider: Literal["openai", "anthropic"]
    model_id: str
    when: Callable[[Body], bool]
    status: int
    body: Json
    acts: Acts
    words: str
    after: float = 0.0
    avoided: bool = False
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    tool_mode: Literal["native", "schema"] = "native"

    @property
    def is_stream(self) -> bool:
        """Whether it comes in the middle of a stream."""
        return self.status == 200 and isinstance(self.body, list)


def tools(body: Body) -> list[Body]:
    """The tools of a request, without the wrapping of Chat Completions."""
    given = [as_object(tool) for tool in as_array(body.get("tools"))]
    return [as_object(tool.get("function")) or tool for tool in given]


def schemas(body: Body) -> list[Body]:
    """The schemas of its tools."""
    return [as_object(tool.get("parameters") or tool.get("input_schema")) for tool in tools(body)]


def turns(body: Body) -> list[Body]:
    """Its messages."""
    return [as_object(message) for message in as_array(body.get("messages"))]


def keys_of(schema: Json) -> Iterator[str]:
    """The keys of all properties in a schema."""
    for name, one in as_object(as_object(schema).get("properties")).items():
        yield name
        yield from keys_of(one)


def blocks(message: Body) -> list[Body]:
    """The content of a message of Anthropic's."""
    return [as_object(block) for block in as_array(message.get("content"))]


def calls(body: Body) -> list[Body]:
    """All calls in the messages."""
    return [as_object(call) for turn in turns(body) for call in as_array(turn.get("tool_calls"))]


def unanswered(body: Body) -> bool:
    """A call without its result directly behind it."""
    owed: set[Json] = set()
    for turn in turns(body):
        if turn.get("role") == "tool":
            owed.discard(turn.get("tool_call_id"))
        elif owed:
            return True
        owed |= {as_object(call).get("id") for call in as_array(turn.get("tool_calls"))}
    return bool(owed)


def _ids(message: Body, kind: str, key: str) -> set[Json]:
    return {block[key] for block in blocks(message) if block.get("type") == kind}


def unanswered_use(body: Body) -> bool:
    """A tool_use without its tool_result in the next message."""
    given = [*turns(body), {}]
    return any(
        _ids(one, "tool_use", "id") - _ids(after, "tool_result", "tool_use_id")
        for one, after in pairwise(given)
    )


def unasked_result(body: Body) -> bool:
    """A tool_result without its tool_use in the message before."""
    given = [{}, *turns(body)]
    return any(
        _ids(one, "tool_result", "tool_use_id") - _ids(before, "tool_use", "id")
        for before, one in pairwise(given)
    )


def is_forced(body: Body) -> bool:
    """Whether a tool must be called."""
    choice = body.get("tool_choice")
    return choice == "required" or as_object(choice).get("type") in {"any", "tool", "function"}


def always(_body: Body) -> bool:
    """Whatever is asked: the account or the server is the cause."""
    return True


def openai(message: str, code: Json = None, kind: str = "invalid_request_error") -> Body:
    """An error as OpenAI writes it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(message: str, kind: str = "invalid_request_error") -> Body:
    """An error as Anthropic writes it."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(status: int, name: str, message: str, *details: Body) -> list[Body]:
    """An error as Gemini's OpenAI endpoint writes it."""
    error = {"code": status, "message": message, "status": name, "details": list(details)}
    return [{"error": error}]


def quota(name: str) -> Body:
    """Google's word for which quota is used up."""
    return {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": name}],
    }


GROQ_FAILED = {
    "error": {
        "message": "Tool call validation failed: parameters for tool find did not match schema",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": '{"name": "find", "code": "insufficient_quota"}',
    }
}
CHUNK = {"choices": [{"index": 0, "delta": {"content": "I "}, "finish_reason": None}]}
RETRY_14 = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "14s"}
OPUS = "claude-opus-5-5"

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "openai: max_tokens for a model that reasons", "openai", "gpt-5-mini",
        lambda body: "max_tokens" in body, 400,
        openai(
            "Unsupported parameter: 'max_tokens' is not supported with this model."
            " Use 'max_completion_tokens' instead.",
            "unsupported_parameter",
        ),
        "fails", "Use 'max_completion_tokens' instead", avoided=True,
    ),
    Refusal(
        "openai: temperature for a model that reasons", "openai", "gpt-5-mini",
        lambda body: body.get("temperature", 1) != 1, 400,
        openai(
            "Unsupported value: 'temperature' does not support 0.16 with this model."
            " Only the default (1) value is supported.",
            "unsupported_value",
        ),
        "fails", "'temperature' does not support", parameters={"temperature": 0.16},
    ),
    Refusal(
        "openai: 129 tools", "openai", "gpt-4o", lambda body: len(tools(body)) > 128, 400,
        openai(
            "Invalid 'tools': array too long. Expected an array with maximum length 128,"
            " but got an array with length 129 instead.",
            "array_above_max_length",
        ),
        "fails", "array too long", avoided=True,
    ),
    Refusal(
        "openai: a strict tool whose object is open", "openai", "gpt-4o",
        lambda body: any(tool.get("strict") for tool in tools(body)), 400,
        openai("Invalid schema for function 'find': 'additionalProperties' is required to be false",
               "invalid_function_parameters"),
        "fails", "Invalid schema for function", avoided=True,
    ),
    Refusal(
        "openai: an object without properties", "openai", "gpt-4o",
        lambda body: any("properties" not in schema for schema in schemas(body)), 400,
        openai(
            "Invalid schema for function 'stop': In context=(), object schema missing properties.",
            "invalid_function_parameters",
        ),
        "fails", "object schema missing properties", avoided=True,
    ),
    Refusal(
        "openai: stream_options without a stream", "openai", "gpt-4o",
        lambda body: "stream_options" in body and not body.get("stream"), 400,
        openai("The 'stream_options' parameter is only allowed when 'stream' is enabled."),
        "fails", "only allowed when", avoided=True,
    ),
    Refusal(
        "openai: no money", "openai", "gpt-4o", always, 429,
        openai("You exceeded your current quota, please check your plan and billing details.",
               "insufficient_quota", "insufficient_quota"),
        "pauses", "exceeded your current quota",
    ),
    Refusal(
        "openai: a spend limit of the project", "openai", "gpt-4o", always, 429,
        openai("Spend limit reached.", "project_spend_limit_exceeded"),
        "pauses", "Spend limit reached",
    ),
    Refusal(
        "openai: a call without its result", "openai", "gpt-4o", unanswered, 400,
        openai(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to"
            " each 'tool_call_id'."
        ),
        "fails", "must be followed by tool messages", avoided=True,
    ),
    Refusal(
        "anthropic: temperature", "anthropic", "claude-opus-4-8",
        lambda body: "temperature" in body, 400,
        anthropic("temperature: Extra inputs are not permitted"),
        "fails", "temperature: Extra inputs", parameters={"temperature": 0},
    ),
    Refusal(
        "anthropic: the name of a tool", "anthropic", "claude-sonnet-5",
        lambda body: any(
            not re.fullmatch("[a-zA-Z0-9_-]{1,128}", str(tool["name"])) for tool in tools(body)
        ),
        400,
        anthropic("tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        "fails", "tools.0.custom.name", avoided=True,
    ),
    Refusal(
        "anthropic: the key of an argument", "anthropic", "claude-sonnet-5",
        lambda body: any(
            not re.fullmatch("[a-zA-Z0-9_.-]{1,64}", key)
            for schema in schemas(body)
            for key in keys_of(schema)
        ),
        400,
        anthropic(
            "tools.0.custom.input_schema.properties: Property keys should match pattern"
            " '^[a-zA-Z0-9_.-]{1,64}$'"
        ),
        "fails", "Property keys should match", avoided=True,
    ),
    Refusal(
        "anthropic: two tools of one name", "anthropic", "claude-sonnet-5",
        lambda body: len({tool["name"] for tool in tools(body)}) < len(tools(body)), 400,
        anthropic("tools: Tool names must be unique."), "fails", "must be unique", avoided=True,
    ),
    Refusal(
        "anthropic: a call without its result", "anthropic", "claude-sonnet-5", unanswered_use, 400,
        anthropic(
            "messages.5: `tool_use` ids were found without `tool_result` blocks immediately after:"
            " toolu_01"
        ),
        "fails", "without `tool_result` blocks", avoided=True,
    ),
    Refusal(
        "anthropic: a result without its call", "anthropic", "claude-sonnet-5", unasked_result, 400,
        anthropic(
            "messages.4.content.5: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01"
        ),
        "fails", "unexpected `tool_use_id`", avoided=True,
    ),
    Refusal(
        "anthropic: a forced tool", "anthropic", OPUS, is_forced, 400,
        anthropic("tool_choice: this model does not support forced tool use"),
        "fails", "tool_choice", avoided=True,
    ),
    Refusal(
        "anthropic: thinking that is turned off", "anthropic", OPUS,
        lambda body: as_object(body.get("thinking")).get("type") == "disabled", 400,
        anthropic("thinking: cannot be disabled for this model"),
        "fails", "cannot be disabled", parameters={"thinking": {"type": "disabled"}},
    ),
    Refusal(
        "anthropic: the assistant speaks last", "anthropic", OPUS,
        lambda body: turns(body)[-1]["role"] == "assistant", 400,
        anthropic("This model does not support assistant message prefill."),
        "fails", "prefill", avoided=True,
    ),
    Refusal(
        "anthropic: 21 strict tools", "anthropic", "claude-sonnet-5",
        lambda body: sum(bool(tool.get("strict")) for tool in tools(body)) > 20, 400,
        anthropic("tools: at most 20 strict tools are allowed"),
        "fails", "20 strict tools", avoided=True,
    ),
    Refusal(
        "anthropic: a strict schema that points at itself", "anthropic", "claude-sonnet-5",
        lambda body: "$ref" in json.dumps(schemas(body)), 400,
        anthropic("tools.0: Schema is too complex"), "fails", "too complex", avoided=True,
    ),
    Refusal(
        "anthropic: no money", "anthropic", "claude-sonnet-5", always, 400,
        anthropic(
            "Your credit balance is too low to access the Anthropic API. Please go to Plans &"
            " Billing to upgrade or purchase credits."
        ),
        "pauses", "credit balance is too low",
    ),
    Refusal(
        "anthropic: overloaded", "anthropic", "claude-sonnet-5", always, 529,
        anthropic("Overloaded", "overloaded_error"), "waits", "529 overloaded_error: Overloaded",
    ),
    Refusal(
        "anthropic: overloaded in a stream", "anthropic", "claude-sonnet-5", always, 200,
        [anthropic("Overloaded", "overloaded_error")], "waits", "overloaded_error: Overloaded",
    ),
    Refusal(
        "gemini: a call without its signature", "openai", "gemini-3-pro",
        lambda body: bool(calls(body)) and "extra_content" not in calls(body)[0], 400,
        google(
            400, "INVALID_ARGUMENT",
            "Function call is missing a thought_signature in functionCall parts.",
        ),
        "fails", "missing a thought_signature", avoided=True,
    ),
    Refusal(
        "gemini: a schema without a type", "openai", "gemini-2.5-flash",
        lambda body: any(
            not {"type", "anyOf"} & as_object(one).keys()
            or not isinstance(one.get("type", ""), str)
            for schema in schemas(body)
            for one in as_object(schema.get("properties")).values()
        ),
        400,
        google(
            400, "INVALID_ARGUMENT",
            "GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[any]"
            ".type: must be specified when not using one_of, any_of or all_of fields",
        ),
        "fails", "must be specified", avoided=True,
    ),
    Refusal(
        "gemini: a key that is none", "openai", "gemini-2.5-flash", always, 400,
        google(
            400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.",
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
        ),
        "pauses", "API key not valid",
    ),
    Refusal(
        "gemini: the quota of a minute", "openai", "gemini-2.5-flash", always, 429,
        google(
            429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.",
            quota("GenerateRequestsPerMinutePerProjectPerModel"), RETRY_14,
        ),
        "waits", "exceeded your current quota", after=14,
    ),
    Refusal(
        "gemini: the quota of a day", "openai", "gemini-2.5-flash", always, 429,
        google(
            429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.",
            quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), RETRY_14,
        ),
        "waits", "exceeded your current quota", after=3_600,
    ),
    Refusal(
        "azure: a prompt that its filter blocks", "openai", "gpt-4o", always, 400,
        {
            "error": {
                "code": "content_filter",
                "message": "The response was filtered due to the prompt.",
                "innererror": {
                    "code": "ResponsibleAIPolicyViolation",
                    "content_filter_result": {"jailbreak": {"detected": True, "filtered": True}},
                },
            }
        },
        "fails", "filtered due to the prompt.; filtered: jailbreak",
    ),
    Refusal(
        "mistral: the ID of a call", "openai", "mistral-large-latest",
        lambda body: any(
            not re.fullmatch("[a-zA-Z0-9]{9}", str(call["id"])) for call in calls(body)
        ),
        400,
        {
            "object": "error",
            "message": "Tool call id was toolu_01 but must be a-z, A-Z, 0-9, with a length of 9.",
            "type": "invalid_function_call", "param": None, "code": "3280", "raw_status_code": 400,
        },
        "fails", "with a length of 9", avoided=True,
    ),
    Refusal(
        "mistral: stream_options", "openai", "mistral-large-latest",
        lambda body: "stream_options" in body, 422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options", "include_usage"],
                        "msg": "Extra inputs are not permitted",
                        "input": True,
                    }
                ]
            },
            "type": "invalid_request_error", "param": None, "code": None,
        },
        "fails", "body.stream_options.include_usage: Extra inputs are not permitted",
        avoided=True, parameters={"stream_options": None},
    ),
    Refusal(
        "groq: arguments that do not fit the schema", "openai", "llama-3.3-70b", always, 400,
        GROQ_FAILED, "retries", "Tool call validation failed",
    ),
    Refusal(
        "groq: the same in a stream", "openai", "llama-3.3-70b", always, 200,
        [CHUNK, GROQ_FAILED], "retries", "Tool call validation failed",
    ),
    Refusal(
        "groq: no capacity", "openai", "llama-3.3-70b", always, 498,
        openai("Over capacity", "capacity_exceeded"), "waits", "498 capacity_exceeded",
    ),
    Refusal(
        "groq: a request that is too large", "openai", "llama-3.3-70b", always, 413,
        openai("Request too large for model", "rate_limit_exceeded", "tokens"),
        "fails", "Request too large",
    ),
    Refusal(
        "deepseek: a call without its result", "openai", "deepseek-chat", unanswered, 400,
        openai(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to"
            " each 'tool_call_id'. (insufficient tool messages following tool_calls message)"
        ),
        "fails", "insufficient tool messages", avoided=True,
    ),
    Refusal(
        "deepseek: a turn without its reasoning", "openai", "deepseek-reasoner",
        lambda body: any(
            "tool_calls" in turn and "reasoning_content" not in turn for turn in turns(body)
        ),
        400, openai("Missing `reasoning_content` field in the assistant message"),
        "fails", "Missing `reasoning_content`", avoided=True,
    ),
    Refusal(
        "deepseek: a forced tool while it thinks", "openai", "deepseek-reasoner", is_forced, 400,
        openai("Thinking mode does not support this tool_choice"),
        "fails", "does not support this tool_choice", avoided=True,
    ),
    Refusal(
        "deepseek: a schema of the answer", "openai", "deepseek-chat",
        lambda body: as_object(body.get("response_format")).get("type") == "json_schema", 400,
        openai("This response_format type is unavailable now"),
        "fails", "response_format type is unavailable", tool_mode="schema",
    ),
    Refusal(
        "deepseek: no money", "openai", "deepseek-chat", always, 402,
        openai("Insufficient Balance", "invalid_request_error", "unknown_error"),
        "pauses", "Insufficient Balance",
    ),
    Refusal(
        "xai: stop", "openai", "grok-4", lambda body: "stop" in body, 400,
        openai("Argument not supported on this model: stop"),
        "fails", "not supported on this model: stop", parameters={"stop": ["."]},
    ),
    Refusal(
        "xai: frequency_penalty", "openai", "grok-4",
        lambda body: "frequency_penalty" in body, 400,
        openai("Argument not supported on this model: frequencyPenalty"),
        "fails", "frequencyPenalty", parameters={"frequency_penalty": 1},
    ),
    Refusal(
        "xai: a key that is none", "openai", "grok-4", always, 400,
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: xa***zz. You can obtain one from the console.",
        },
        "pauses", "Incorrect API key provided: […]",
    ),
    Refusal(
        "openrouter: a failure in the middle of a stream", "openai", "some/model", always, 200,
        [
            CHUNK,
            {
                "error": {"code": 502, "message": "Provider disconnected"},
                "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            },
        ],
        "retries", "502: Provider disconnected",
    ),
    Refusal(
        "openrouter: what was written is flagged", "openai", "some/model", always, 403,
        {
            "error": {
                "code": 403,
                "message": "Input was flagged",
                "metadata": {"reasons": ["violence"], "flagged_input": "…"},
            }
        },
        "fails", "Input was flagged; violence",
    ),
    Refusal(
        "openrouter: no credits", "openai", "some/model", always, 402,
        {"error": {"code": 402, "message": "Insufficient credits"}},
        "pauses", "Insufficient credits",
    ),
    Refusal(
        "openrouter: credits that other calls hold", "openai", "some/model", always, 402,
        {"error": {"code": 402, "message": "In-flight budget exceeded"}},
        "waits", "In-flight budget", after=7, headers={"retry-after": "7"},
    ),
    Refusal(
        "vllm: stream_options without a stream", "openai", "qwen3",
        lambda body: "stream_options" in body and not body.get("stream"), 400,
        {
            "object": "error", "message": "Stream options can only be defined when `stream=True`.",
            "type": "BadRequestError", "param": None, "code": 400,
        },
        "fails", "Stream options can only be defined", avoided=True,
    ),
    Refusal(
        "vllm: no parser for calls", "openai", "qwen3",
        lambda body: body.get("tool_choice") == "auto", 400,
        {
            "error": {
                "message": '"auto" tool choice requires --enable-auto-tool-choice and'
                " --tool-call-parser to be set",
                "type": "BadRequestError", "param": None, "code": 400,
            }
        },
        "fails", "--enable-auto-tool-choice",
    ),
    Refusal(
        "vllm: an empty list of tools", "openai", "qwen3",
        lambda body: body.get("tools") == [], 400,
        openai("`tools` must not be an empty array.", 400, "BadRequestError"),
        "fails", "must not be an empty array", avoided=True,
    ),
    Refusal(
        "vllm: a choice without tools", "openai", "qwen3",
        lambda body: "tool_choice" in body and not body.get("tools"), 400,
        openai("When using `tool_choice`, `tools` must be set.", 400, "BadRequestError"),
        "fails", "`tools` must be set", avoided=True,
    ),
    Refusal(
        "vllm: a named tool that is not there", "openai", "qwen3",
        lambda body: as_object(as_object(body.get("tool_choice")).get("function")).get("name")
        not in {None, *(tool["name"] for tool in tools(body))},
        400, openai("Tool 'gone' has not been passed in `tools`.", 400, "BadRequestError"),
        "fails", "has not been passed", avoided=True,
    ),
    Refusal(
        "ollama: an image by its URL", "openai", "llama3.3",
        lambda body: "image_url" in json.dumps(turns(body)), 400,
        openai("image URLs are not currently supported, please use base64 encoded data instead"),
        "fails", "image URLs are not currently supported", avoided=True,
    ),
    Refusal(
        "ollama: nothing said and nothing called", "openai", "llama3.3",
        lambda body: any(
            turn.get("content") is None and not turn.get("tool_calls") for turn in turns(body)
        ),
        400, openai("invalid message content type: <nil>"),
        "fails", "invalid message content type", avoided=True,
    ),
    Refusal(
        "ollama: arguments that are no JSON", "openai", "llama3.3",
        lambda body: any(
            not _is_json(as_object(call["function"])["arguments"]) for call in calls(body)
        ),
        400, openai("invalid tool call arguments"), "fails", "invalid tool call", avoided=True,
    ),
    Refusal(
        "llama.cpp: the model is being loaded", "openai", "qwen3", always, 503,
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        "waits", "503 unavailable_error: Loading model",
    ),
    Refusal(
        "llama.cpp: a prompt that is too long", "openai", "qwen3", always, 400,
        {
            "error": {
                "code": 400,
                "message": "request (9412 tokens) exceeds the available context size (8192 tokens),"
                " try increasing it",
                "type": "exceed_context_size_error", "n_prompt_tokens": 9412, "n_ctx": 8192,
            }
        },
        "fails", "exceeds the available context size (8192 tokens)",
    ),
    Refusal(
        "bedrock: a forced tool", "openai", "openai.gpt-oss-120b", is_forced, 400,
        {"error": {"message": 'Unsupported tool_choice. Supported options: ["auto"]'}},
        "fails", 'Supported options: ["auto"]', parameters={"tool_choice": None},
    ),
    Refusal(
        "bedrock: too many requests", "openai", "openai.gpt-oss-120b", always, 400,
        {"message": "Too many requests, please wait before trying again."},
        "waits", "ThrottlingException: Too many requests",
        headers={"x-amzn-errortype": "ThrottlingException:http://internal.amazon.com/"},
    ),
    Refusal(
        "litellm: a parameter that the provider has not", "openai", "prod-chat", always, 400,
        openai("litellm.UnsupportedParamsError: seed is not supported", "400", "None"),
        "fails", "UnsupportedParamsError",
    ),
    Refusal(
        "litellm: a budget", "openai", "prod-chat", always, 422,
        openai("Budget has been exceeded! Current cost: 10.1, Max budget: 10", "422",
               "budget_exceeded"),
        "pauses", "Budget has been exceeded",
    ),
    Refusal(
        "litellm: no deployment", "openai", "prod-chat", always, 429,
        openai("No deployments available for selected model, Try again in 5 seconds.", "429"),
        "waits", "No deployments available", after=5,
    ),
    Refusal(
        "a proxy: a page", "openai", "some-model", always, 502,
        "<html><head><title>502 Bad Gateway</title><style>h1 {color: red}</style></head>"
        "<body><center><h1>502 Bad Gateway</h1></center><hr>nginx</body></html>",
        "retries", "502: 502 Bad Gateway 502 Bad Gateway nginx",
    ),
    Refusal(
        "a captive portal: a page in place of an answer", "openai", "some-model", always, 200,
        "<!DOCTYPE html><html><body><h1>Sign in to the network</h1></body></html>",
        "pauses", "web page, not JSON: Sign in to the network",
    ),
    Refusal(
        "fastapi: a list of details", "openai", "some-model", always, 422,
        {"detail": [{"loc": ["body", "messages"], "msg": "field required", "type": "missing"}]},
        "fails", "body.messages: field required",
    ),
)  # fmt: skip


def _is_json(text: Json) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


WHOLE: Mapping[str, Body] = {
    "openai": {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]},
    "anthropic": {"content": [{"type": "text", "text": "fine"}], "stop_reason": "end_turn"},
}


class RefusingServer:
    """A server that refuses as one row of the table says; an async context manager.

    Args:
        whatever: refuse each request; else those that the provider would refuse.

    Attributes:
        asked: the requests.
    """

    def __init__(self, refusal: Refusal, *, whatever: bool) -> None:
        self._refusal = refusal
        self._whatever = whatever
        self._server = HttpServer(self._answer)
        self._port = 0
        self.asked: list[Body] = []

    @property
    def spec(self) -> ModelSpec:
        """The row of a model that answers here."""
        refusal = self._refusal
        path = "/v1" if refusal.provider == "openai" else ""
        return ModelSpec(
            "m", refusal.provider, refusal.model_id, f"http://127.0.0.1:{self._port}{path}",
            tool_mode=refusal.tool_mode, parameters=refusal.parameters,
        )  # fmt: skip

    async def __aenter__(self) -> Self:
        """Listen."""
        self._port = await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the port."""
        await self._server.stop()

    async def _answer(self, incoming: Incoming) -> Outgoing:
        refusal, body = self._refusal, as_object(json.loads(incoming.body))
        self.asked.append(body)
        if not self._whatever and not refusal.when(body):
            return Outgoing(200, json.dumps(WHOLE[refusal.provider]).encode())
        if refusal.is_stream:
            return Outgoing(200, _events(refusal.body), {"content-type": "text/event-stream"})
        if isinstance(refusal.body, str):
            return Outgoing(refusal.status, refusal.body.encode(), {"content-type": "text/html"})
        answer: Any = json.dumps(refusal.body).encode()
        return Outgoing(refusal.status, answer, dict(refusal.headers))


def _events(values: Json) -> bytes:
    lines: list[str] = []
    for value in values:
        kind = f"event: {value['type']}\n" if "type" in value else ""
        lines.append(f"{kind}data: {json.dumps(value)}\n\n")
    return "".join(lines).encode()
