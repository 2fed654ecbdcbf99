"""What a request is about: the one place that reads a row's words out of a transcript.

In: the messages.  Out: the text to decide on, and which tools were called for it already.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import cast

from walagent.domain.untrusted import unframed
from walagent.message import Json, Message, Text, ToolCall, ToolResult

_WORD = re.compile(r"[^\W\d_]{2,}")  # two letters of any script: no number, date or id
_CODE = re.compile(r"[!-~]{1,100}")  # one ASCII word: a status, an address, a key


@dataclass(frozen=True, slots=True)
class Subject:
    """What there is to decide on.

    `done` and `failed` are names of tools that were called about this text, `failed` with the
    words in which they failed.
    """

    text: str
    done: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict[str, str])


def subject_of(messages: Sequence[Message]) -> Subject:
    """Read the row of a run, or the last thing said in a conversation."""
    words = [(at, text) for at, text in _said(messages) if text.strip()]
    if not words:
        return Subject("")
    since, text = words[0]
    if (row := row_text(text)) is None:
        since, row = words[-1]
    return Subject(row, *_called(messages[since:]))


def row_text(text: str) -> str | None:
    """Give the words of the row in a data block: its columns that hold more than a code.

    Of several changes to one row the last one counts.  None: there is no data block.
    """
    block = unframed("change", text)
    if block is None:
        return None
    try:
        document: Json = json.loads(block)
    except ValueError:
        return None  # somebody in a conversation wrote something alike
    change = _object(document[-1] if isinstance(document, list) else document)
    row = _object(change.get("new") or change.get("old"))
    texts = [value for value in row.values() if isinstance(value, str) and _WORD.search(value)]
    return "\n".join([text for text in texts if not _CODE.fullmatch(text)] or texts)


def _said(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """Give what the user's side said in words, with its place."""
    for at, message in enumerate(messages):
        if message.role == "user":
            for part in message.parts:
                if isinstance(part, Text):
                    yield at, part.text


def _called(messages: Sequence[Message]) -> tuple[frozenset[str], Mapping[str, str]]:
    parts = list(chain.from_iterable(message.parts for message in messages))
    calls = frozenset(part.name for part in parts if isinstance(part, ToolCall))
    failed = {p.name: p.content for p in parts if isinstance(p, ToolResult) and p.is_error}
    return calls, failed


def _object(value: Json) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", value) if isinstance(value, dict) else {}
