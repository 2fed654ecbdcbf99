"""The Anthropic Messages format, inwards: a JSON answer becomes a `Reply`.  Pure."""

from collections.abc import Mapping

from walagent.message import (
    Json,
    ModelSpec,
    Reply,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from walagent.models import prompt
from walagent.models.anthropic.request_body import author_of
from walagent.models.errors import no_answer
from walagent.models.replies import (
    NAME_LIMIT,
    as_array,
    as_object,
    clean,
    count,
    read_call_value,
    storable,
)

STOPS: Mapping[str, Stop] = {
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "tool_use": Stop.TOOL,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "pause_turn": Stop.LENGTH,  # only server tools pause, and we send none
    "refusal": Stop.REFUSAL,
}


def reply_of(answer: Json, spec: ModelSpec, request: Request) -> Reply:
    """Read the answer of ``POST /v1/messages``.

    A tool call that the request demanded may be missing: the caller evaluates that.

    Raises:
        ModelUnavailableError: it is no whole answer; it has the usage of what came.
    """
    used = _usage(as_object(answer).get("usage"))
    match answer:
        case {"content": list(), "stop_reason": str(reason)} if reason in STOPS:
            blocks = as_array(answer["content"])
            ids = prompt.call_ids([_given_id(block) for block in blocks], request)
            author = author_of(spec)
            parts = (_part(one, block, author) for one, block in zip(ids, blocks, strict=True))
            return Reply(
                parts=tuple(part for part in parts if part is not None),
                stop=STOPS[reason],
                usage=used,
                model=clean(str(answer.get("model", "")), NAME_LIMIT),
                why=_why(answer),
            )
        case {"stop_reason": str(reason)}:
            raise no_answer(spec, f"it stopped for an unknown reason, {clean(reason, 40)}", used)
        case _:
            raise no_answer(spec, "it does not say that it is whole", used)


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


def _usage(usage: Json) -> Usage:
    given = as_object(usage)
    return Usage(
        input_tokens=count(given.get("input_tokens")),
        cached_tokens=count(given.get("cache_read_input_tokens")),
        cache_write_tokens=count(given.get("cache_creation_input_tokens")),
        output_tokens=count(given.get("output_tokens")),
    )
