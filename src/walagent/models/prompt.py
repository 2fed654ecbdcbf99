"""What both providers do alike to a request before they write it in their own format.

Pure: equal requests give equal text, byte for byte, or prompt caches would miss.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from walagent.errors import ModelRejectedError
from walagent.message import Example, Json, Message, ModelSpec, Request, ToolCall, ToolResult
from walagent.models.replies import NAME_LIMIT, clean

_NEEDED = frozenset({"messages", "model"})  # without these there is no request
_EXAMPLES = "Examples.  Each is a text, and the tool call that answers it."


def system_text(request: Request) -> str:
    """Give the system prompt with the worked examples at its end."""
    if not request.examples:
        return request.system
    lines = [_EXAMPLES, *(_example(example) for example in request.examples)]
    return "\n\n".join([*([request.system] if request.system else []), *lines])


def turns(messages: Iterable[Message]) -> Iterator[Message]:
    """Join neighbours of one role, and put tool results before the words beside them.

    Both wire formats want the results directly after the call.  A turn only ever grows at its
    end while results arrive, so the prefix stays.
    """
    turn: Message | None = None
    for message in messages:
        if turn is not None and turn.role == message.role:
            turn = Message(turn.role, turn.parts + message.parts)
            continue
        if turn is not None:
            yield _results_first(turn)
        turn = message
    if turn is not None:
        yield _results_first(turn)


def parameters(spec: ModelSpec, request: Request, owned: frozenset[str]) -> dict[str, Json]:
    """Give the parameters to pass through; the request's go before the model's.

    One that is null takes a field out, also one that walagent fills in.

    Raises:
        ModelRejectedError: one of them sets a field that walagent itself fills in.
    """
    merged = {**spec.parameters, **request.parameters}
    taken = sorted(
        name for name in owned & merged.keys() if merged[name] is not None or name in _NEEDED
    )
    if taken:
        does = "set" if merged[taken[0]] is not None else "removed"
        raise ModelRejectedError(
            f"{spec.name}: parameter {taken[0]} cannot be {does}, walagent fills it in itself"
        )
    return merged


def assembled(body: dict[str, Any], given: Mapping[str, Json]) -> dict[str, Any]:
    """Lay the given parameters over *body*; one that is null takes our own default out."""
    return {key: value for key, value in {**body, **given}.items() if value is not None}


def max_tokens(spec: ModelSpec, request: Request) -> int:
    """Give the number of tokens to ask for: the request's wish, within the model's limit."""
    return min(request.max_tokens, spec.max_output_tokens)


def call_ids(given: Iterable[Json], request: Request) -> list[str]:
    """Give the ids of a reply's calls; one that is missing or taken is made up.

    Results find their call by its id, so no two in a transcript may be equal.  What is made up
    is equal when the same request is answered again.
    """
    calls = (part for message in request.messages for part in message.parts)
    taken = {call.id for call in calls if isinstance(call, ToolCall)}
    ids: list[str] = []
    for at, one in enumerate(given):
        call_id = clean(one, NAME_LIMIT) if isinstance(one, str) and one != "null" else ""
        if not call_id or call_id in taken:
            call_id = f"call_{len(request.messages)}_{at}"
        taken.add(call_id)
        ids.append(call_id)
    return ids


def unusable(call: ToolCall) -> Mapping[str, Json]:
    """Show a call's unusable arguments as JSON: several servers refuse to read back anything else.

    The tool result that follows says what was wrong with them.
    """
    return {"invalid_arguments": call.raw}


def _results_first(turn: Message) -> Message:
    results = tuple(part for part in turn.parts if isinstance(part, ToolResult))
    others = tuple(part for part in turn.parts if not isinstance(part, ToolResult))
    return Message(turn.role, results + others) if results and others else turn


def _example(example: Example) -> str:
    text = orjson.dumps(example.text).decode()
    arguments = orjson.dumps(dict(example.arguments), option=orjson.OPT_SORT_KEYS).decode()
    return f"Text: {text}\nCall: {example.tool} {arguments}"
