"""Acme's wire format, from both sides."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Literal

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
from walagent.providers import (
    Body,
    Failure,
    WireFormat,
    assembled,
    clean,
    need,
    parameters,
    read_call_value,
    system_text,
)
from walagent.testing import Fault

_KNOWN = ("choice", "limit", "model", "parallel", "system", "tools", "turns")


def write_request(request: Request, spec: ModelSpec) -> Body:
    """Write what Acme is sent."""
    given = parameters(spec, request, frozenset(_KNOWN))
    body: Body = {
        "model": spec.model_id,
        "system": system_text(request),
        "turns": [[turn.role, _parts(turn)] for turn in request.messages],
        "tools": [[tool.name, tool.description, dict(tool.input_schema)] for tool in request.tools],
        "choice": [request.choice.mode, request.choice.name],
        "limit": request.max_tokens,
        "parallel": request.parallel_calls,
    }
    return assembled(body, given)


def _parts(turn: Message) -> list[Json]:
    """Write a turn without thoughts, which only the provider that wrote them can read."""
    return [_part(part) for part in turn.parts if not isinstance(part, Thinking)]


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
            return Text(clean(text))
        case {"call": [str(call_id), str(name), arguments]}:
            return read_call_value(call_id, name, arguments)
        case {"result": [call_id, name, content, is_error]}:
            return ToolResult(call_id, name, content, is_error)
        case _:
            raise ValueError(f"not a part: {part}")


def reply_of(answer: Body) -> Reply:
    """Read an answer."""
    parts = (_part_of(part) for part in answer["parts"])
    said = tuple(part for part in parts if not isinstance(part, ToolResult) and part != Text(""))
    return Reply(said, Stop(answer["stop"]), Usage(*answer["usage"]), answer["model"])


def failure_of(status: int, content: bytes, headers: Mapping[str, str]) -> Failure:
    """Read an error."""
    try:
        said = json.loads(content)
        return Failure(status, str(said["code"]), str(said["problem"]), headers)
    except (ValueError, TypeError, KeyError):
        return Failure(status, headers=headers)


def _read(body: Body, _headers: Mapping[str, str]) -> Request:
    need(set(_KNOWN) <= set(body), "a field is missing")
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


def _write_error(fault: Fault, message: str) -> Body:
    return {"problem": message, "code": fault.code}


ACME = WireFormat("/say", _read, _write, _write_error, key_headers=("x-acme-key",))
