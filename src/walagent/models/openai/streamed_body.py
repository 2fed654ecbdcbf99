"""The OpenAI Chat Completions format, streamed: chunks add up to the JSON answer.  Pure."""

from collections.abc import AsyncIterable, Callable
from typing import Any

import orjson

from walagent.message import Json
from walagent.models.exchange import DONE
from walagent.models.openai.request_body import REASONING
from walagent.models.openai.response_body import thoughts_of, words_of
from walagent.models.replies import as_array, as_object
from walagent.models.written_thoughts import TextFilter

ASKED: dict[str, Json] = {"stream": True, "stream_options": {"include_usage": True}}

_OF_A_PART = frozenset({"error", "model", "usage", "x_groq"})  # of a stream that was cut
_TEXTS = frozenset({"content", "refusal", *REASONING})


async def gather(chunks: AsyncIterable[Json], on_text: Callable[[str], None]) -> Json:
    """Return the answer that *chunks* make up, as it would have come in one piece.

    Without a reason for its end it is whole only if the stream says that it is done.

    Args:
        on_text: called with each piece of the text.
    """
    answer: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant"}
    calls: list[_Call] = []
    reason: Json = None
    done = False
    shown = TextFilter(on_text)
    async for chunk in chunks:
        if chunk == DONE:
            done = True
            break
        given = as_object(chunk)
        answer |= {key: value for key, value in given.items() if value and key != "choices"}
        for choice in map(as_object, as_array(given.get("choices"))[:1]):
            answer |= {key: choice[key] for key in ("error", "usage") if choice.get(key)}
            delta = as_object(choice.get("delta") or choice.get("message"))
            reason = choice.get("finish_reason") or reason
            _add_texts(message, delta, shown)
            for piece in as_array(delta.get("tool_calls")):
                _add(calls, as_object(piece))
            if isinstance(delta.get("function_call"), dict):  # of before there were several
                _add(calls, {"function": delta["function_call"]})
    shown.end()
    if calls:
        message["tool_calls"] = [call.whole for call in calls]
    if reason is None and not done:
        return {key: value for key, value in answer.items() if key in _OF_A_PART}
    return {**answer, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def _add_texts(message: dict[str, Any], delta: dict[str, Json], shown: TextFilter) -> None:
    for key, given in delta.items():
        if key not in _TEXTS:
            continue
        if key == "content" and isinstance(given, list):
            _append(message, REASONING[0], thoughts_of(given))
        piece = given if isinstance(given, str) else words_of(given)
        _append(message, key, piece)
        if key == "content" and piece:
            shown.write(piece)


def _append(message: dict[str, Any], key: str, piece: str) -> None:
    if piece:
        message[key] = message.get(key, "") + piece


class _Call:
    """A call that arrives in pieces."""

    def __init__(self, index: Json) -> None:
        self.index = index
        self.whole: dict[str, Any] = {"function": {"name": "", "arguments": ""}}

    @property
    def id(self) -> str:
        return str(self.whole.get("id") or "")

    @property
    def name(self) -> Json:
        return self.whole["function"]["name"]

    @property
    def is_whole(self) -> bool:
        """Whether no more arguments can follow."""
        arguments = self.whole["function"]["arguments"]
        if not isinstance(arguments, str):
            return True
        try:
            orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return False
        return True

    def add(self, piece: dict[str, Json]) -> None:
        self.whole |= {key: value for key, value in piece.items() if value and key != "function"}
        function = self.whole["function"]
        for key, text in as_object(piece.get("function")).items():
            known = function.get(key)
            whole = key == "name" or not isinstance(text, str) or not isinstance(known, str)
            if text or (text == {} and not known):
                function[key] = text if whole else known + text


def _add(calls: list[_Call], piece: dict[str, Json]) -> None:
    """Add a piece to the call that it continues, or begin one.

    Servers number calls, give them IDs, or do neither; some give all the number 0, and some a new
    ID to each piece.
    """
    call = _continued(calls, piece)
    if call is None:
        call = _Call(piece.get("index"))
        calls.append(call)
    call.add(piece)


def _continued(calls: list[_Call], piece: dict[str, Json]) -> _Call | None:
    """Return the call of a piece; None if it begins one."""
    function = as_object(piece.get("function"))
    index, name = piece.get("index"), function.get("name")
    call_id = str(piece.get("id") or "")
    last = calls[-1] if calls else None
    if isinstance(index, int):
        last = next((call for call in reversed(calls) if call.index == index), None)
        if last is None and (call_id or name or not calls):
            return None
        last = last or calls[-1]
    if last is None:
        return None
    if call_id and call_id != last.id and last.id:
        known = next((call for call in reversed(calls) if call.id == call_id), None)
        if not isinstance(index, int) and known is not None and not (name and known.is_whole):
            return known
        # Without a name, and in the middle of arguments, it is only a new ID for each piece.
        return None if name or last.is_whole or not isinstance(index, int) else last
    if not name or not last.name:
        return last
    repeats = name == last.name and (not last.is_whole or not function.get("arguments"))
    return last if repeats and (call_id or not last.is_whole) else None
