"""The OpenAI Chat Completions format, streamed: chunks add up to the JSON answer.  Pure."""

from collections.abc import AsyncIterable, Callable
from typing import Any

from walagent.message import Json
from walagent.models.openai.request_body import REASONING
from walagent.models.replies import as_array, as_object

ASKED: dict[str, Json] = {"stream": True, "stream_options": {"include_usage": True}}

_TEXTS = frozenset({"content", "refusal", *REASONING})


async def gather(chunks: AsyncIterable[Json], on_text: Callable[[str], None]) -> Json:
    """Return the answer that *chunks* make up, as it would have come in one piece.

    Args:
        on_text: called with each piece of the text.
    """
    answer: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant"}
    calls: dict[object, dict[str, Any]] = {}
    reason: Json = None
    async for chunk in chunks:
        given = as_object(chunk)
        answer |= {key: value for key, value in given.items() if value and key != "choices"}
        for choice in as_array(given.get("choices"))[:1]:
            delta = as_object(as_object(choice).get("delta"))
            reason = as_object(choice).get("finish_reason") or reason
            for key, piece in delta.items():
                if key in _TEXTS and isinstance(piece, str) and piece:
                    message[key] = message.get(key, "") + piece
                    if key == "content":
                        on_text(piece)
            for piece in as_array(delta.get("tool_calls")):
                _add(calls, as_object(piece))
    if calls:
        message["tool_calls"] = list(calls.values())
    if reason is None:
        return answer  # it was cut off, or is an error
    return {**answer, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def _add(calls: dict[object, dict[str, Any]], piece: dict[str, Json]) -> None:
    """Add a piece to its call; servers that number no calls send each in one piece, with its ID."""
    at = piece.get("index")
    at = at if isinstance(at, int) else piece.get("id") or len(calls)
    call = calls.setdefault(at, {"function": {"name": "", "arguments": ""}})
    call |= {key: value for key, value in piece.items() if value and key != "function"}
    for key, text in as_object(piece.get("function")).items():
        known = call["function"].get(key)
        whole = key == "name" or not isinstance(text, str) or not isinstance(known, str)
        if text:
            call["function"][key] = text if whole else known + text
