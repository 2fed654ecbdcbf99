"""The Anthropic Messages format, from the provider's side: reads requests, writes answers.

Stricter than the real one where servers that imitate it are: roles must alternate.
"""

import json
import re
from collections.abc import Iterator, Mapping

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
        "cache_control",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    ]
)
_MODES = {"auto": "auto", "any": "required", "tool": "named", "none": "none"}
_STOPS = {
    Stop.END: "end_turn",
    Stop.TOOL: "tool_use",
    Stop.LENGTH: "max_tokens",
    Stop.REFUSAL: "refusal",
}
_MARKS = 4  # breakpoints of the prompt cache in one request
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_ID = re.compile(r"[A-Za-z0-9_-]+")


def read(body: Body, headers: Mapping[str, str]) -> Request:
    """Check the request and give it in the neutral form.

    Raises:
        WireError: what is wrong with it.
    """
    need("anthropic-version" in headers, "anthropic-version: header is required")
    need_keys(body, _KNOWN, "body")
    need(isinstance(body.get("model"), str), "model: field required")
    need(isinstance(body.get("max_tokens"), int), "max_tokens: field required")
    need(str(body).count("'cache_control'") <= _MARKS, "a maximum of 4 cache_control blocks")
    tools = tuple(_tool(as_object(tool)) for tool in as_array(body.get("tools")))
    need(len({tool.name for tool in tools}) == len(tools), "tools: Tool names must be unique.")
    messages = _messages(as_array(body.get("messages")))
    parts = [part for message in messages for part in message.parts]
    used = any(isinstance(part, ToolCall | ToolResult) for part in parts)
    need(tools or not used, "tools: required when the messages use tools")
    choice = as_object(body.get("tool_choice", {"type": "auto"}))
    return Request(
        system="".join(_text(as_object(block)) for block in as_array(body.get("system"))),
        messages=messages,
        tools=tools,
        choice=_choice(choice, tools),
        max_tokens=body["max_tokens"],
        parallel_calls=not choice.get("disable_parallel_tool_use", False),
        continues="cache_control" in body,
    )


def write(reply: Reply, body: Body) -> Body:
    """Write a reply as the answer to *body*."""
    return {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": reply.model or body["model"],
        "content": [block for part in reply.parts if (block := _block(part))],
        "stop_reason": _STOPS[reply.stop],
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "cache_read_input_tokens": reply.usage.cached_tokens,
            "cache_creation_input_tokens": reply.usage.cache_write_tokens,
            "output_tokens": reply.usage.output_tokens,
        },
    }


def write_error(fault: Fault, message: str) -> Body:
    """Write an error's body."""
    kind = fault.code or _ERRORS.get(fault.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _tool(tool: Body) -> ToolSpec:
    need_keys(tool, ("name", "description", "input_schema", "cache_control"), "tools")
    need(TOOL_NAME.fullmatch(str(tool.get("name"))), "tools.name: should match the pattern")
    schema = as_object(tool.get("input_schema"))
    need(schema.get("type") == "object", "tools.input_schema.type: field required")
    need_schema(schema, _KEY, "tools.input_schema")
    return ToolSpec(tool["name"], str(tool.get("description", "")), schema)


def _choice(choice: Body, tools: tuple[ToolSpec, ...]) -> ToolChoice:
    mode, name = _MODES.get(str(choice.get("type"))), str(choice.get("name", ""))
    names = {tool.name for tool in tools}
    need(mode != "named" or name in names, f"tool_choice: tool {name!r} not found in tools")
    match mode:
        case "auto" | "required" | "named" | "none":
            return ToolChoice(mode, name)
        case _:
            raise WireError("tool_choice.type: unknown")


def _messages(messages: list[Json]) -> tuple[Message, ...]:
    need(messages, "messages: at least one message is required")
    read: list[Message] = []
    names: dict[str, str] = {}
    owed: list[str] = []  # ids of the calls of the message before
    for at, message in enumerate(as_object(message) for message in messages):
        role = ("user", "assistant")[at % 2]
        need(message.get("role") == role, f"messages.{at}: roles must alternate from user on")
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        need(blocks, f"messages.{at}: content must not be empty")
        parts = tuple(_part(as_object(block), role, names) for block in as_array(blocks))
        given = [part.call_id for part in parts if isinstance(part, ToolResult)]
        need_results(owed, given, f"messages.{at}")
        first = all(isinstance(part, ToolResult) for part in parts[: len(given)])
        need(first, f"messages.{at}: tool results must come first")
        owed = [part.id for part in parts if isinstance(part, ToolCall)]
        read.append(Message("user" if role == "user" else "assistant", parts))
    need_results(owed, [], "the last message")
    return tuple(read)


def _part(block: Body, role: str, names: dict[str, str]) -> Text | Thinking | ToolCall | ToolResult:
    match {"role": role, **block}:
        case {"type": "text"}:
            return Text(_text(block))
        case {"role": "assistant", "type": "tool_use", "id": str(call_id), "name": str(name)}:
            need(_ID.fullmatch(call_id) and call_id not in names, "tool_use.id: invalid or taken")
            need(isinstance(block.get("input"), dict), "tool_use.input: should be an object")
            names[call_id] = name
            return ToolCall(call_id, name, as_object(block["input"]))
        case {"role": "user", "type": "tool_result", "tool_use_id": str(call_id)}:
            known = ("type", "tool_use_id", "content", "is_error", "cache_control")
            need_keys(block, known, "tool_result")
            content, failed = str(block.get("content", "")), bool(block.get("is_error", False))
            return ToolResult(call_id, names.get(call_id, ""), content, failed)
        case {"role": "assistant", "type": "thinking" | "redacted_thinking"}:
            need(block.get("signature") or block.get("data"), "thinking: signature required")
            return Thinking("anthropic", block)
        case _:
            raise WireError(f"a block of type {block.get('type')!r} cannot be the {role}'s")


def _text(block: Body) -> str:
    need_keys(block, ("type", "text", "cache_control"), "text")
    need(str(block.get("text", "")).strip(), "text content blocks must contain text")
    return str(block["text"])


def _block(part: Text | Thinking | ToolCall) -> Json:
    match part:
        case Text(text):
            return {"type": "text", "text": text} if text else None
        case Thinking(raw=raw):
            return raw
        case ToolCall(id=call_id, name=name, arguments=arguments, raw=raw):
            given = raw if arguments is None else dict(arguments)
            return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def write_events(answer: Body) -> Iterator[str]:
    """Split an answer into events: a word each, inputs of calls in pieces."""
    if answer["type"] == "error":
        yield _event(answer)
        return
    usage = answer["usage"]
    start: Body = {
        **answer,
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield _event({"type": "message_start", "message": start})
    yield _event({"type": "ping"})
    for index, block in enumerate(answer["content"]):
        empty, deltas = _deltas(block)
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    ends = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    output = {"output_tokens": usage["output_tokens"]}
    yield _event({"type": "message_delta", "delta": ends, "usage": output})
    yield _event({"type": "message_stop"})


def _event(event: Body) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _deltas(block: Body) -> tuple[Body, list[Body]]:
    """Return a block as it starts, and what continues it."""
    match block:
        case {"type": "text", "text": str(text)}:
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces_of(text)]
            return {**block, "text": ""}, deltas
        case {"type": "tool_use", "input": given}:
            pieces = pieces_of(given if isinstance(given, str) else json.dumps(given))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            return {**block, "input": {}}, deltas
        case {"type": "thinking", "thinking": str(text)}:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces_of(text)]
            signature = {"type": "signature_delta", "signature": block.get("signature", "")}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signature]
        case _:
            return block, []


MESSAGES = WireFormat("/v1/messages", read, write, write_error, write_events=write_events)
