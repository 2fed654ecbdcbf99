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
from walagent.models.ends import STOPS, end_of
from walagent.models.errors import Failure, no_answer
from walagent.models.openai import NAME
from walagent.models.openai.request_body import REASONING
from walagent.models.replies import (
    NAME_LIMIT,
    as_array,
    as_object,
    clean,
    read_call,
    read_call_value,
    storable,
)
from walagent.models.usage import read_usage
from walagent.models.written_thoughts import thoughts_and_text


def reply_of(answer: Json, spec: ModelSpec, request: Request) -> Reply:
    """Read the answer of ``POST /chat/completions``.

    A tool call that the request demanded may be missing, and there may be several where one was
    asked for: the caller evaluates that.

    Raises:
        ModelUnavailableError: it is no whole answer; it has the usage of what came.
    """
    used = usage_of(answer)
    match answer:
        case {"choices": [{"message": {**given}, **choice}, *_]}:
            message, reason = as_object(given), choice.get("finish_reason")
        case _:
            raise no_answer(spec, "it has no message, or does not say that it is whole", used)
    if reason is not None and not isinstance(reason, str):
        raise no_answer(spec, "its reason for its end is not a text", used)
    parts = tuple(_parts(message, request))
    if (stop := _stop(reason, message, parts)) is None:
        raise no_answer(spec, f"it stopped for an unknown reason, {clean(str(reason), 40)}", used)
    if not reason and not any(isinstance(part, Text | ToolCall) for part in parts):
        raise no_answer(spec, "it names no reason for its end and has no content", used)
    return Reply(
        parts=parts,
        stop=stop,
        usage=used,
        model=clean(str(answer.get("model", "")), NAME_LIMIT),
        why=_why(reason, message),
        tier=clean(str(answer.get("service_tier") or ""), NAME_LIMIT),
    )


def error_body(answer: Json) -> Failure | None:
    """Find an error in an answer that came with status 200.

    Gateways answer so when the provider behind them failed, also in the middle of a stream.
    """
    match answer:
        case [{"error": _}, *_]:
            return Failure.of(None, answer)
        case {"choices": [{"error": error, **choice}, *_]} if error:
            return None if _is_whole(choice) else Failure.of(None, {"error": error})
        case {"choices": [choice, *_], "error": error} if error:
            return None if _is_whole(as_object(choice)) else Failure.of(None, {"error": error})
        case {"error": error, **rest} if error and not rest.get("choices"):
            return Failure.of(None, {**rest, "error": error})
        case {"choices": _} | {"output": _}:
            return None
        case {"object": "error"} | {"detail": _} | {"message": _}:
            return Failure.of(None, answer)
        case _:
            return None


def _is_whole(choice: Mapping[str, Json]) -> bool:
    return str(choice.get("finish_reason")).lower() in STOPS


def words_of(content: Json) -> str:
    """Return the text of a content, which some servers write in pieces."""
    match content:
        case str(text):
            return text
        case [*pieces]:
            return "".join(words_of(piece) for piece in as_array(pieces))
        case {"type": "thinking" | "reasoning"}:
            return ""
        case {"text": str(text)} | {"refusal": str(text)}:
            return text
        case _:
            return ""


def thoughts_of(content: Json) -> str:
    """Return the reasoning that stands among the pieces of a content."""
    found: list[str] = []
    for piece in as_array(content):
        match piece:
            case {"type": "thinking", "thinking": inner} | {"type": "reasoning", "text": inner}:
                found.append(words_of(inner))
            case _:
                pass
    return "".join(found)


def _parts(message: Mapping[str, Json], request: Request) -> Iterator[Text | Thinking | ToolCall]:
    thoughts = {name: message[name] for name in REASONING if message.get(name)}
    content = message.get("content") or message.get("refusal")
    if inner := thoughts_of(content):
        thoughts.setdefault(REASONING[0], inner)
    written, text = thoughts_and_text(words_of(content))
    if written:
        thoughts["text"] = clean(written)  # it came in the text, and is not sent back
    if thoughts and storable(thoughts):
        yield Thinking(NAME, thoughts)
    if text:
        yield Text(clean(text))
    calls = as_array(message.get("tool_calls"))
    if not calls and isinstance(message.get("function_call"), dict):
        calls = [{"function": message["function_call"]}]
    ids = prompt.call_ids([_id(call) for call in calls], request)
    for call_id, call in zip(ids, calls, strict=True):
        yield from _read_call(call_id, call)


def _id(call: Json) -> Json:
    given = as_object(call).get("id")
    return str(given) if isinstance(given, int) else given


def _read_call(call_id: str, call: Json) -> Iterator[ToolCall | Thinking]:
    match call:
        case {"function": {"name": str(name), **function}}:
            arguments: Json = function.get("arguments", function.get("parameters")) or ""
            read = read_call if isinstance(arguments, str) else read_call_value
            yield read(call_id, name, arguments)
        case _:
            return
    extra = {"call": call_id, "extra_content": call.get("extra_content")}
    if extra["extra_content"] and storable(extra):  # Gemini's signature: it wants it back
        yield Thinking(NAME, extra)


def _stop(
    reason: str | None, message: Mapping[str, Json], parts: tuple[Text | Thinking | ToolCall, ...]
) -> Stop | None:
    stop = end_of(reason, calls=any(isinstance(part, ToolCall) for part in parts))
    refused = message.get("refusal") and not message.get("content")
    return Stop.REFUSAL if refused and stop is not None else stop


def _why(reason: str | None, message: Mapping[str, Json]) -> str:
    """Name what stopped an answer, where it is no ordinary end: a filter of the provider."""
    found = (reason or "").lower()
    if STOPS.get(found) is not Stop.REFUSAL or (found == "refusal" and message.get("refusal")):
        return ""
    return clean(found, NAME_LIMIT)


def usage_of(answer: Json) -> Usage:
    """Read what an answer cost, usable or not; it stands in several places."""
    top = as_object(answer)
    choice = as_object(next(iter(as_array(top.get("choices"))), None))
    places = (top.get("usage"), top.get("x_groq"), choice.get("usage"), top.get("usageMetadata"))
    for given in map(as_object, places):
        if given:
            return read_usage(as_object(given.get("usage")) or given)
    return Usage()
