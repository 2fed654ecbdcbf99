"""The Anthropic Messages format, outwards: a `Request` becomes a JSON body.

Pure.  Thinking blocks are kept as they came, signature and all, and go back only to the model
that wrote them: newer models refuse another's.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from walagent.message import (
    Json,
    Message,
    ModelSpec,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from walagent.models import prompt
from walagent.models.anthropic import NAME
from walagent.models.replies import as_object
from walagent.models.schema_writer import ToolRules

OWNED = frozenset({"max_tokens", "messages", "model", "stream", "system", "tool_choice", "tools"})

# 64 characters of a name are what older servers take; the newest take 128.
TOOLS = ToolRules(
    name=re.compile(r"[A-Za-z0-9_-]{1,64}"),
    key=re.compile(r"[A-Za-z0-9_.-]{1,64}"),
    most_tools=None,
)

_EPHEMERAL = {"type": "ephemeral"}
# These always think, and refuse a forced tool with 400.
_UNFORCEABLE = re.compile(r"claude-(?:fable|mythos)-5-[1-9]|claude-(?:opus|sonnet|haiku)-5-5")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def body_of(request: Request, spec: ModelSpec) -> dict[str, Any]:
    """Write *request* as the body of ``POST /v1/messages``.

    The prompt cache is marked where the prefix that all runs of an agent share ends, and, through
    the top-level switch, after the last block if another call will read it: a write that is never
    read costs a quarter more than none.  A parameter that is null takes all marks out.  A model
    that cannot be forced to call a tool is left free to.

    Raises:
        ModelRejectedError: a parameter names a field that is ours.
    """
    given = prompt.parameters(spec, request, OWNED)
    body: dict[str, Any] = {
        "model": spec.model_id,
        "max_tokens": prompt.max_tokens(spec, request),
    }
    marks = given.get("cache_control", _EPHEMERAL) is not None
    if request.continues:
        body["cache_control"] = _EPHEMERAL
    if system := prompt.system_text(request):
        mark = {"cache_control": _EPHEMERAL} if marks else {}
        body["system"] = [{"type": "text", "text": system, **mark}]
    if request.tools:
        body["tools"] = _tools(request, marked=marks and not system)
        forceable = not _UNFORCEABLE.match(spec.model_id) and not _thinks(given)
        choice = request.choice if forceable else _unforced(request.choice)
        body["tool_choice"] = _choice(choice, parallel=request.parallel_calls)
    author = author_of(spec)
    turns = (_message(turn, author) for turn in prompt.turns(request.messages))
    body["messages"] = [turn for turn in turns if turn["content"]]
    return prompt.assembled(body, given)


def _tools(request: Request, *, marked: bool) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.input_schema),
        }
        for tool in request.tools
    ]
    if marked:  # the system prompt follows the tools, and its mark covers them
        tools[-1]["cache_control"] = _EPHEMERAL
    return tools


def _choice(choice: ToolChoice, *, parallel: bool) -> dict[str, Any]:
    one_only = {} if parallel else {"disable_parallel_tool_use": True}
    match choice.mode:
        case "none":
            return {"type": "none"}
        case "required":
            return {"type": "any", **one_only}
        case "named":
            return {"type": "tool", "name": choice.name, **one_only}
        case _:
            return {"type": "auto", **one_only}


def _thinks(given: Mapping[str, Json]) -> bool:
    """Tell whether thinking is asked for with a budget, which forbids forcing a tool."""
    return as_object(given.get("thinking")).get("type") == "enabled"


def _unforced(choice: ToolChoice) -> ToolChoice:
    return choice if choice.mode == "none" else ToolChoice()


def author_of(spec: ModelSpec) -> str:
    """Name who can read a thinking block back."""
    return f"{NAME}:{spec.model_id}"


def _message(turn: Message, author: str) -> dict[str, Any]:
    blocks = (_block(part, author) for part in turn.parts)
    return {"role": turn.role, "content": [block for block in blocks if block is not None]}


def _block(part: Text | Thinking | ToolCall | ToolResult, author: str) -> Json:
    """Write one part; None for what this model would refuse to read."""
    match part:
        case Text(text):
            return {"type": "text", "text": text} if text.strip() else None
        case Thinking(provider, raw):
            return raw if provider in {NAME, author} else None
        case ToolCall(id=call_id, name=name, arguments=arguments):
            given = prompt.unusable(part) if arguments is None else arguments
            return {"type": "tool_use", "id": _id(call_id), "name": name, "input": dict(given)}
        case ToolResult(call_id, _, content, is_error):
            failed = {"is_error": True} if is_error else {}
            block = {"type": "tool_result", "tool_use_id": _id(call_id), "content": content}
            return {**block, **failed}


def _id(call_id: str) -> str:
    """Give an id that the Messages API takes, also for a call that another provider named."""
    if _ID.fullmatch(call_id):
        return call_id
    return f"call_{sha256(call_id.encode()).hexdigest()[:24]}"
