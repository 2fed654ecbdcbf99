"""Acme's wire format, from both sides."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Literal

from walagent.agent.models.scripted.model import Fault
from walagent.agent.models.wire import Body, WireFormat, need, need_keys
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
    Usage,
)


def write_request(request: Request) -> Body:
    """Write what Acme is sent beside the model's name."""
    return {
        "system": request.system,
        "turns": [[turn.role, [_part(part) for part in turn.parts]] for turn in request.messages],
        "tools": [[tool.name, tool.description, dict(tool.input_schema)] for tool in request.tools],
        "choice": [request.choice.mode, request.choice.name],
        "limit": request.max_tokens,
        "parallel": request.parallel_calls,
    }


def _part(part: Text | Thinking | ToolCall | ToolResult) -> Json:
    match part:
        case Text(text):
            return {"text": text}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {"call": [call_id, name, dict(arguments or {})]}
        case ToolResult(call_id, name, content, is_error):
            return {"result": [call_id, name, content, is_error]}
        case Thinking(raw=raw):
            return {"thinking": raw}


def _part_of(part: Json) -> Text | ToolCall | ToolResult:
    match part:
        case {"text": str(text)}:
            return Text(text)
        case {"call": [call_id, name, arguments]}:
            return ToolCall(call_id, name, arguments)
        case {"result": [call_id, name, content, is_error]}:
            return ToolResult(call_id, name, content, is_error)
        case _:
            raise ValueError(f"not a part: {part}")


def reply_of(answer: Body) -> Reply:
    """Read an answer."""
    parts = (_part_of(part) for part in answer["parts"])
    said = tuple(part for part in parts if not isinstance(part, ToolResult))
    return Reply(said, Stop(answer["stop"]), Usage(*answer["usage"]), answer["model"])


def _read(body: Body, _headers: Mapping[str, str]) -> Request:
    known = ("model", "system", "turns", "tools", "choice", "limit", "parallel")
    need_keys(body, known, "body")
    need(body["turns"], "turns: at least one")
    return Request(
        body["system"],
        tuple(_turn(role, parts) for role, parts in body["turns"]),
        tuple(ToolSpec(*tool) for tool in body["tools"]),
        ToolChoice(*body["choice"]),
        body["limit"],
        parallel_calls=body["parallel"],
    )


def _turn(role: Literal["user", "assistant"], parts: list[Json]) -> Message:
    return Message(role, tuple(map(_part_of, parts)))


def _write(reply: Reply, _body: Body) -> Body:
    counts = [getattr(reply.usage, field.name) for field in fields(Usage)]
    parts = [_part(part) for part in reply.parts]
    return {"parts": parts, "stop": reply.stop.value, "usage": counts, "model": reply.model}


def _write_error(_fault: Fault, message: str) -> Body:
    return {"problem": message}


ACME = WireFormat("/say", _read, _write, _write_error, key_headers=("x-acme-key",))
