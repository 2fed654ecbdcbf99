"""The Anthropic Messages format, streamed: events add up to the JSON answer.  Pure."""

from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
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
    gathered = _Gathered(on_text)
    async for event in events:
        given = as_object(event)
        if given.get("type") == "error":
            return event
        gathered.take(given)
    return gathered.answer()


class _Gathered:
    """What has come so far."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._answer: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._done = False

    def take(self, event: dict[str, Json]) -> None:
        """Add an event."""
        match event:
            case {"type": "message_start", "message": {**message}}:
                self._answer |= message
            case {"type": "content_block_start", "content_block": {**block}}:
                self._blocks.append(_Block(event.get("index"), block))
            case {"type": "content_block_delta", "delta": {**delta}}:
                self._add(event.get("index"), delta)
            case {"type": "message_delta", "delta": {**delta}}:
                used = as_object(event.get("usage"))
                known = as_object(self._answer.get("usage"))
                counted = known | {
                    key: tokens for key, tokens in used.items() if tokens is not None
                }
                self._answer |= delta | {"usage": counted}
            case {"type": "message_stop"}:
                self._done = True
            case _:
                pass

    def answer(self) -> Json:
        """Return the answer; without its end, only what it cost."""
        if not self._done and self._answer.get("stop_reason") is None:
            return {"usage": self._answer.get("usage")}
        for block in self._blocks:
            if block.given is not None:
                block.whole["input"] = _parsed(block.given)
        return {**self._answer, "content": [block.whole for block in self._blocks]}

    def _add(self, index: Json, delta: dict[str, Any]) -> None:
        """Add a delta to the last block of its number, or to the last."""
        last = self._blocks[-1] if self._blocks else None
        of_index = (block for block in reversed(self._blocks) if block.index == index)
        if (block := next(of_index, last)) is None:
            return
        _continue(block.whole, delta, self._on_text)
        if delta.get("type") == "input_json_delta":
            block.given = (block.given or "") + str(delta.get("partial_json") or "")


@dataclass(slots=True)
class _Block:
    """A block that arrives in pieces; the input of a call is JSON in pieces."""

    index: Json
    whole: dict[str, Any]
    given: str | None = None


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
