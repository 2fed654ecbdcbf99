"""The OpenAI Chat Completions format, inwards: a JSON answer becomes a `Reply`.

Pure.  Servers that only resemble OpenAI are the rule here, so the answer is read field by field
and nothing in it is taken for granted.
"""

from collections.abc import Iterator, Mapping

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
from walagent.models.errors import no_answer
from walagent.models.openai import NAME
from walagent.models.openai.request_body import REASONING
from walagent.models.replies import (
    NAME_LIMIT,
    as_array,
    as_object,
    clean,
    count,
    read_call,
    read_call_value,
    storable,
)

# What a server calls its end.  `insufficient_system_resource` and the like are no end at all.
STOPS: Mapping[str, Stop] = {
    "stop": Stop.END,
    "tool_calls": Stop.TOOL,
    "function_call": Stop.TOOL,
    "length": Stop.LENGTH,
    "content_filter": Stop.REFUSAL,
}


def reply_of(answer: Json, spec: ModelSpec, request: Request) -> Reply:
    """Read the answer of ``POST /chat/completions``.

    A tool call that the request demanded may be missing, and there may be several where one was
    asked for: the caller evaluates that.

    Raises:
        ModelUnavailableError: it is no whole answer.
    """
    match answer:
        case {"choices": [{"message": {**given}, "finish_reason": str(reason)}, *_]}:
            message = as_object(given)
        case _:
            raise no_answer(spec, "it names no reason for its end")
    if reason not in STOPS:
        raise no_answer(spec, f"it stopped for an unknown reason, {clean(reason, 40)}")
    parts = tuple(_parts(message, request))
    return Reply(
        parts=parts,
        stop=_stop(reason, message, parts),
        usage=_usage(answer.get("usage")),
        model=clean(str(answer.get("model", "")), NAME_LIMIT),
    )


def error_body(answer: Json) -> tuple[int | None, str, str] | None:
    """Find an error in an answer that came with status 200: status, code and words.

    Gateways answer so when the provider behind them failed.
    """
    match answer:
        case {"choices": [_, *_]}:
            return None
        case {"error": {"code": int(status), "message": str(words)}}:
            return status, "", words
        case {"error": {"message": str(words)} as error}:
            return None, clean(str(error.get("code") or "error"), NAME_LIMIT), words
        case _:
            return None


def _parts(message: Mapping[str, Json], request: Request) -> Iterator[Text | Thinking | ToolCall]:
    thoughts = {name: message[name] for name in REASONING if message.get(name)}
    if thoughts and storable(thoughts):
        yield Thinking(NAME, thoughts)
    match message.get("content") or message.get("refusal"):
        case str(text):
            yield Text(clean(text))
        case [*_] as pieces:  # some servers answer in pieces, as a request may be written
            yield Text(clean("".join(_piece(piece) for piece in as_array(pieces))))
        case _:
            pass
    calls = as_array(message.get("tool_calls"))
    ids = prompt.call_ids([_id(call) for call in calls], request)
    for call_id, call in zip(ids, calls, strict=True):
        yield from _read_call(call_id, call)


def _id(call: Json) -> Json:
    return as_object(call).get("id")


def _piece(piece: Json) -> str:
    match piece:
        case {"text": str(text)}:
            return text
        case _:
            return ""


def _read_call(call_id: str, call: Json) -> Iterator[ToolCall | Thinking]:
    match call:
        case {"function": {"name": str(name), **function}}:
            arguments: Json = function.get("arguments") or ""
            read = read_call if isinstance(arguments, str) else read_call_value
            yield read(call_id, name, arguments)
        case _:
            return
    extra = {"call": call_id, "extra_content": call.get("extra_content")}
    if extra["extra_content"] and storable(extra):  # Gemini's signature: it wants it back
        yield Thinking(NAME, extra)


def _stop(
    reason: str, message: Mapping[str, Json], parts: tuple[Text | Thinking | ToolCall, ...]
) -> Stop:
    """Say why it stopped; servers that say `stop` beside tool calls, or the reverse, are many."""
    stop = STOPS[reason]
    if message.get("refusal") and not message.get("content"):
        return Stop.REFUSAL
    if stop in {Stop.END, Stop.TOOL}:
        return Stop.TOOL if any(isinstance(part, ToolCall) for part in parts) else Stop.END
    return stop


def _usage(usage: Json) -> Usage:
    given = as_object(usage)
    details = as_object(given.get("prompt_tokens_details"))
    prompted = count(given.get("prompt_tokens"))
    cached = min(prompted, count(details.get("cached_tokens")))
    written = min(prompted - cached, count(details.get("cache_write_tokens")))
    # Gemini counts its thinking in the total only.
    output = max(count(given.get("completion_tokens")), count(given.get("total_tokens")) - prompted)
    return Usage(prompted - cached - written, cached, written, output)
