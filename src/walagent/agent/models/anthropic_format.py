"""The Anthropic Messages format: a `Request` becomes a JSON body, a JSON answer a `Reply`.

Pure.  Thinking blocks are kept as they came, signature and all, and go back only to this
provider.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from walagent.agent.models import prompt
from walagent.agent.models.errors import no_answer
from walagent.agent.models.replies import (
    NAME_LIMIT,
    as_array,
    as_object,
    clean,
    count,
    read_call_value,
    storable,
)
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
    Usage,
)

PROVIDER = "anthropic"

OWNED = frozenset({"max_tokens", "messages", "model", "stream", "system", "tool_choice", "tools"})

STOPS: Mapping[str, Stop] = {
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "tool_use": Stop.TOOL,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "pause_turn": Stop.LENGTH,  # only server tools pause, and we send none
    "refusal": Stop.REFUSAL,
}

_EPHEMERAL = {"type": "ephemeral"}
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def body_of(request: Request, spec: ModelSpec) -> dict[str, Any]:
    """Write *request* as the body of ``POST /v1/messages``.

    Three marks make the prompt cache work: after the tools, after the system prompt, and, through
    the top-level switch, after the last block.

    Raises:
        ModelRejectedError: a parameter names a field that is ours.
    """
    given = prompt.parameters(spec, request, OWNED)
    body: dict[str, Any] = {
        "model": spec.model_id,
        "max_tokens": prompt.max_tokens(spec, request),
        "cache_control": _EPHEMERAL,
    }
    if system := prompt.system_text(request):
        body["system"] = [{"type": "text", "text": system, "cache_control": _EPHEMERAL}]
    if request.tools:
        body["tools"] = _tools(request)
        body["tool_choice"] = _choice(request.choice, parallel=request.parallel_calls)
    turns = (_message(turn) for turn in prompt.turns(request.messages))
    body["messages"] = [turn for turn in turns if turn["content"]]
    return prompt.assembled(body, given)


def reply_of(answer: Json, spec: ModelSpec, request: Request) -> Reply:
    """Read the answer of ``POST /v1/messages``.

    A tool call that the request demanded may be missing: the caller judges that.

    Raises:
        ModelUnavailableError: it is no whole answer.
    """
    match answer:
        case {"content": list(), "stop_reason": str(reason)} if reason in STOPS:
            blocks = as_array(answer["content"])
            ids = prompt.call_ids([_given_id(block) for block in blocks], request)
            parts = (_part(call_id, block) for call_id, block in zip(ids, blocks, strict=True))
            return Reply(
                parts=tuple(part for part in parts if part is not None),
                stop=STOPS[reason],
                usage=_usage(answer.get("usage")),
                model=clean(str(answer.get("model", "")), NAME_LIMIT),
            )
        case {"stop_reason": str(reason)}:
            raise no_answer(spec, f"it stopped for an unknown reason, {clean(reason, 40)}")
        case _:
            raise no_answer(spec, "it names no reason for its end")


def _tools(request: Request) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.input_schema),
        }
        for tool in request.tools
    ]
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


def _message(turn: Message) -> dict[str, Any]:
    blocks = (_block(part) for part in turn.parts)
    return {"role": turn.role, "content": [block for block in blocks if block is not None]}


def _block(part: Text | Thinking | ToolCall | ToolResult) -> Json:
    """Write one part; None for what this provider would refuse to read."""
    match part:
        case Text(text):
            return {"type": "text", "text": text} if text.strip() else None
        case Thinking(provider, raw):
            return raw if provider == PROVIDER else None
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


def _given_id(block: Json) -> Json:
    return as_object(block).get("id")


def _part(call_id: str, block: Json) -> Text | Thinking | ToolCall | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(clean(text)) if text else None
        case {"type": "tool_use", "name": str(name)}:
            return read_call_value(call_id, name, block.get("input"))
        case {"type": "thinking" | "redacted_thinking"} if storable(block):
            return Thinking(PROVIDER, block)
        case _:
            return None


def _usage(usage: Json) -> Usage:
    given = as_object(usage)
    return Usage(
        input_tokens=count(given.get("input_tokens")),
        cached_tokens=count(given.get("cache_read_input_tokens")),
        cache_write_tokens=count(given.get("cache_creation_input_tokens")),
        output_tokens=count(given.get("output_tokens")),
    )
