"""The OpenAI Chat Completions format, from the provider's side: reads requests, writes answers.

As strict as the strictest server that speaks it: arguments must be JSON, roles must alternate,
and tool results must directly follow their calls.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Literal

from walagent.message import (
    Json,
    Message,
    Reply,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    ToolSpec,
)
from walagent.models.replies import as_array, as_object
from walagent.models.script import Fault
from walagent.models.wire_format import (
    TOOL_NAME,
    Body,
    WireError,
    WireFormat,
    need,
    need_keys,
    need_results,
    need_schema,
    pieces_of,
)

_KNOWN = frozenset(
    [
        "frequency_penalty",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "parallel_tool_calls",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "reasoning_effort",
        "response_format",
        "seed",
        "service_tier",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
        "user",
        "verbosity",
    ]
)
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")  # what Gemini takes, behind whatever gateway
_MOST_TOOLS = 128
_STOPS = {
    Stop.END: "stop",
    Stop.TOOL: "tool_calls",
    Stop.LENGTH: "length",
    Stop.REFUSAL: "content_filter",
}


def read(body: Body, _headers: Mapping[str, str]) -> Request:
    """Check the request and give it in the neutral form.

    Raises:
        WireError: what is wrong with it.
    """
    need_keys(body, _KNOWN, "body")
    need(isinstance(body.get("model"), str), "you must provide a model parameter")
    need(body.get("stream") or "stream_options" not in body, "stream_options: only with stream")
    limits = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
    need(len(limits) <= 1, "max_tokens and max_completion_tokens exclude each other")
    messages = [as_object(message) for message in as_array(body.get("messages"))]
    system = _system(messages.pop(0)) if messages and messages[0]["role"] == "system" else ""
    need(body.get("tools") != [], "tools: must not be an empty array")
    tools = tuple(_tool(as_object(tool)) for tool in as_array(body.get("tools")))
    need(len(tools) <= _MOST_TOOLS, "tools: array too long, expected at most 128")
    need(len({tool.name for tool in tools}) == len(tools), "tools: names must be unique")
    return Request(
        system=system,
        messages=_messages(messages),
        tools=tools,
        choice=_choice(body.get("tool_choice"), tools),
        max_tokens=int(limits[0]) if limits else 0,
        parallel_calls=body.get("parallel_tool_calls", True),
        tier=body.get("service_tier", ""),
        continues=as_object(body.get("prompt_cache_options")).get("mode") != "explicit",
    )


def write(reply: Reply, body: Body) -> Body:
    """Write a reply as the answer to *body*."""
    usage = reply.usage
    prompted = usage.input_tokens + usage.cached_tokens + usage.cache_write_tokens
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": reply.model or body["model"],
        "service_tier": reply.tier or body.get("service_tier", "default"),
        "choices": [
            {"index": 0, "message": _answer(reply, body), "finish_reason": _finish(reply, body)}
        ],
        "usage": {
            "prompt_tokens": prompted,
            "completion_tokens": usage.output_tokens,
            "total_tokens": prompted + usage.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": usage.cached_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
        },
    }


def write_error(fault: Fault, message: str) -> Body:
    """Write an error's body."""
    return {"error": {"message": message, "type": "fake_error", "code": fault.code or None}}


def _tool(tool: Body) -> ToolSpec:
    need(tool.get("type") == "function", "tools.type: only functions")
    function = as_object(tool.get("function"))
    need_keys(function, ("name", "description", "parameters", "strict"), "tools.function")
    need(TOOL_NAME.fullmatch(str(function.get("name"))), "tools.function.name: invalid")
    schema = as_object(function.get("parameters"))
    need_schema(schema, _KEY, "tools.function.parameters")
    return ToolSpec(function["name"], str(function.get("description", "")), schema)


def _choice(choice: Json, tools: tuple[ToolSpec, ...]) -> ToolChoice:
    need(choice is None or tools, "tool_choice is only allowed when tools are specified")
    match choice:
        case None:
            return ToolChoice()
        case "auto" | "required" | "none":
            mode: Literal["auto", "required", "none"] = choice
            return ToolChoice(mode)
        case {"type": "function", "function": {"name": str(name)}}:
            need(name in {tool.name for tool in tools}, f"tool {name!r} not found in tools")
            return ToolChoice("named", name)
        case _:
            raise WireError("tool_choice: unknown")


def _messages(messages: list[Body]) -> tuple[Message, ...]:
    need(messages, "messages: at least one message is required")
    read: list[Message] = []
    names: dict[str, str] = {}
    owed: list[str] = []  # ids of the calls that still wait for their result
    before = ""
    for at, message in enumerate(messages):
        where, role = f"messages.{at}", str(message.get("role"))
        if role == "tool":
            call_id = str(message.get("tool_call_id"))
            need(call_id in owed, f"{where}: a tool message must follow its call")
            owed.remove(call_id)
            read.append(Message("user", (_result(message, names),)))
        else:
            need_results(owed, [], where)
            need(role in {"user", "assistant"}, f"{where}: unknown role")
            need(role != before, f"{where}: roles must alternate")
            parts = _assistant(message, names) if role == "assistant" else _user(message)
            owed = [part.id for part in parts if isinstance(part, ToolCall)]
            read.append(Message("user" if role == "user" else "assistant", parts))
        before = role
    need_results(owed, [], "the last message")
    return tuple(read)


def _system(message: Body) -> str:
    need_keys(message, ("role", "content"), "system")
    match message.get("content"):
        case str(text):
            return text
        case [{"type": "text", "text": str(text), "prompt_cache_breakpoint": {"mode": "explicit"}}]:
            return text
        case _:
            raise WireError("system.content: a text is required")


def _user(message: Body) -> tuple[Text, ...]:
    need_keys(message, ("role", "content"), "user")
    need(isinstance(message.get("content"), str), "user.content: a text is required")
    return (Text(message["content"]),)


def _result(message: Body, names: dict[str, str]) -> ToolResult:
    need_keys(message, ("role", "content", "tool_call_id"), "tool")
    call_id, content = message["tool_call_id"], str(message.get("content"))
    failed = content.startswith("ERROR: ")
    return ToolResult(call_id, names[call_id], content.removeprefix("ERROR: "), failed)


def _assistant(message: Body, names: dict[str, str]) -> tuple[Text | ToolCall, ...]:
    known = ("role", "content", "tool_calls", "reasoning", "reasoning_content")
    need_keys(message, known, "assistant")
    parts: list[Text | ToolCall] = [Text(message["content"])] if message.get("content") else []
    for call in as_array(message.get("tool_calls")):
        match call:
            case {"id": str(call_id), "function": {"name": str(name), "arguments": str(text)}}:
                need(call_id not in names, f"tool_calls: id {call_id} is taken")
                names[call_id] = name
                parts.append(ToolCall(call_id, name, _arguments(text)))
            case _:
                raise WireError("tool_calls: id and function are required")
    need(parts, "assistant: content or tool_calls are required")
    return tuple(parts)


def _arguments(text: str) -> Body:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    need(isinstance(value, dict), "tool_calls.function.arguments: should be a JSON object")
    return as_object(value)


def _answer(reply: Reply, body: Body) -> Body:
    message: Body = {"role": "assistant", "content": reply.text or None}
    if _by_schema(body):
        return {**message, "content": _action(reply)}
    if reply.calls:
        message["tool_calls"] = [_call(call) for call in reply.calls]
    for part in reply.parts:
        if isinstance(part, Thinking):
            message.update(as_object(part.raw))
    return message


def _finish(reply: Reply, body: Body) -> str:
    return "stop" if _by_schema(body) and reply.stop is Stop.TOOL else _STOPS[reply.stop]


def _by_schema(body: Body) -> bool:
    return as_object(body.get("response_format")).get("type") == "json_schema"


def _action(reply: Reply) -> str:
    for call in reply.calls:
        if call.arguments is None:
            return call.raw
        return json.dumps({"name": call.name, "arguments": dict(call.arguments)})
    return json.dumps({"text": reply.text})


def _call(call: ToolCall) -> Body:
    text = call.raw if call.arguments is None else json.dumps(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _chunk(head: Body, choice: Body) -> str:
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"


def write_events(answer: Body) -> Iterator[str]:
    """Split an answer into chunks: a word each, names and arguments of calls apart."""
    if "error" in answer:
        yield f"data: {json.dumps(answer)}\n\n"
        return
    head: Body = {**answer, "object": "chat.completion.chunk", "choices": [], "usage": None}
    choice = answer["choices"][0]
    message = dict(choice["message"])
    calls = message.pop("tool_calls", [])
    deltas: list[Body] = [{"role": message.pop("role"), "content": ""}]
    for key, value in message.items():
        deltas += [{key: piece} for piece in pieces_of(value or "")]
    for index, call in enumerate(calls):
        function = call["function"]
        named = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        deltas.append({"tool_calls": [named]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in pieces_of(function["arguments"])
        ]
    for delta in deltas:
        yield _chunk(head, {"index": 0, "delta": delta, "finish_reason": None})
    end: Body = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield _chunk(head, end)
    yield f"data: {json.dumps({**head, 'usage': answer['usage']})}\n\n"
    yield "data: [DONE]\n\n"


CHAT = WireFormat(
    "/v1/chat/completions", read, write, write_error, "/v1", write_events=write_events
)
