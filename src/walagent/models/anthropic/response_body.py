"""The Anthropic Messages format, inwards: a JSON answer becomes a `Reply`.  Pure."""

from collections.abc import Mapping

from walagent.message import (
    Json,
    ModelSpec,
    Reply,
    Request,
    Text,
    Thinking,
    ToolCall,
)
from walagent.models import prompt
from walagent.models.anthropic.request_body import author_of
from walagent.models.ends import end_of
from walagent.models.errors import no_answer
from walagent.models.replies import (
    NAME_LIMIT,
    as_object,
    clean,
    read_call_value,
    storable,
)
from walagent.models.usage import read_usage


def reply_of(answer: Json, spec: ModelSpec, request: Request) -> Reply:
    """Read the answer of ``POST /v1/messages``.

    A tool call that the request demanded may be missing: the caller evaluates that.

    Raises:
        ModelUnavailableError: it is no whole answer; it has the usage of what came.
    """
    used = read_usage(as_object(as_object(answer).get("usage")))
    match answer:
        case {"content": [*blocks], "stop_reason": str() | None} if blocks or answer["stop_reason"]:
            reason: str | None = answer["stop_reason"]
        case _:
            raise no_answer(spec, "it does not say that it is whole", used)
    ids = prompt.call_ids([_given_id(block) for block in blocks], request)
    author = author_of(spec)
    read = (_part(one, block, author) for one, block in zip(ids, blocks, strict=True))
    parts = tuple(part for part in read if part is not None)
    stop = end_of(reason, calls=any(isinstance(part, ToolCall) for part in parts))
    if stop is None:
        why = f"it stopped for an unknown reason, {clean(str(reason), 40)}"
        raise no_answer(spec, why, used)
    return Reply(
        parts, stop, used, clean(str(answer.get("model", "")), NAME_LIMIT), why=_why(answer)
    )


def _why(answer: Mapping[str, Json]) -> str:
    """Name what a refusal is about: the safeguard that stopped the answer."""
    category = as_object(answer.get("stop_details")).get("category")
    return clean(str(category), NAME_LIMIT) if category else ""


def _given_id(block: Json) -> Json:
    return as_object(block).get("id")


def _part(call_id: str, block: Json, author: str) -> Text | Thinking | ToolCall | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(clean(text)) if text else None
        case {"type": "tool_use", "name": str(name)}:
            return read_call_value(call_id, name, block.get("input"))
        case {"type": "thinking" | "redacted_thinking"} if storable(block):
            return Thinking(author, block)
        case _:
            return None
