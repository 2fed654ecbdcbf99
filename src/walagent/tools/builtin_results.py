"""Results of built-in tools, as models receive them: what others wrote is data in a block."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from walagent.domain.untrusted import framed, marker, without_control
from walagent.message import Json

_SECRET: Final = os.urandom(32)  # makes markers
_MOST_TEXT: Final = 60_000  # characters of a result


def show_result(name: str, result: Json, run_id: int) -> str:
    """Return the text of a result.

    Args:
        name: the target of the tool.
        result: what the database returned.
    """
    match name:
        case "recall":
            return recalled(result, run_id)
        case "retrieve":
            empty = "no document fits"
            return data_block("document", result, run_id) if result else empty
        case "remember":
            return f"remembered as {result['id']}"
        case "post_event":
            return f"posted as event {result['number']}"
        case "send_email" | "send_webhook":
            return f"accepted for delivery as {result['id']}"
        case _:
            return orjson.dumps(result, default=str).decode()


def recalled(memories: Sequence[Mapping[str, Json]], run_id: int) -> str:
    """Show memories, one a line, each with its trust."""
    return (
        data_block("memory", memories, run_id) if memories else "nothing is remembered about this"
    )


def data_block(kind: str, items: Sequence[Mapping[str, Json]], run_id: int) -> str:
    """Put items into a block of data, one a line; those that do not fit are left out.

    The marker is the same for all results of a run, so that a circle of calls is seen as one.
    """
    room, lines = _MOST_TEXT, list[str]()
    for item in items:
        line = without_control(orjson.dumps(item, default=str).decode())
        room -= len(line) + 1
        if room < 0:
            lines.append(f"(cut: {len(items) - len(lines)} more)")
            break
        lines.append(line)
    return framed(kind, "\n".join(lines), marker(_SECRET, run_id))


def text_block(kind: str, text: str, run_id: int) -> str:
    """Put a text into a block of data, cut to what a result can have."""
    clean = without_control(text)
    if len(clean) > _MOST_TEXT:
        clean = (
            f"{clean[:_MOST_TEXT]}\n(cut: the first {_MOST_TEXT:,} of {len(clean):,} characters)"
        )
    return framed(kind, clean, marker(_SECRET, run_id))
