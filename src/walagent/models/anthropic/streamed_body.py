"""The Anthropic Messages format, streamed: events add up to the JSON answer.  Pure."""

from collections.abc import AsyncIterable, Callable
from typing import Any

import orjson

from walagent.message import Json
from walagent.models.replies import as_object

ASKED: dict[str, Json] = {"stream": True}

# The part of a block that a delta continues.
_PARTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


async def gather(events: AsyncIterable[Json], on_text: Callable[[str], None]) -> Json:
    """Return the answer that *events* make up, as it would have come in one piece.

    Args:
        on_text: called with each piece of the text.
    """
    answer: dict[str, Any] = {}
    blocks: dict[object, dict[str, Any]] = {}
    inputs: dict[object, str] = {}  # of tool calls: JSON in pieces
    async for event in events:
        match event:
            case {"type": "error"}:
                return event
            case {"type": "message_start", "message": {**message}}:
                answer |= message
            case {"type": "content_block_start", "index": at, "content_block": {**block}}:
                blocks[at] = block
            case {"type": "content_block_delta", "index": at, "delta": {**delta}} if at in blocks:
                _continue(blocks[at], delta, on_text)
                if delta.get("type") == "input_json_delta":
                    inputs[at] = inputs.get(at, "") + str(delta.get("partial_json", ""))
            case {"type": "message_delta", "delta": {**delta}}:
                answer |= delta
                used = as_object(event.get("usage"))
                known = as_object(answer.get("usage"))
                answer["usage"] = known | {k: v for k, v in used.items() if v is not None}
            case _:
                pass
    for at, text in inputs.items():
        blocks[at]["input"] = _parsed(text)
    return {**answer, "content": list(blocks.values())}


def _continue(block: dict[str, Any], delta: dict[str, Any], on_text: Callable[[str], None]) -> None:
    part = _PARTS.get(str(delta.get("type")))
    if part is None or not isinstance(piece := delta.get(part), str):
        return
    block[part] = (block.get(part) or "") + piece
    if part == "text" and piece:
        on_text(piece)


def _parsed(text: str) -> Json:
    """Return the arguments of a call; what is no JSON stays a text, which the caller corrects."""
    try:
        return orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return text
