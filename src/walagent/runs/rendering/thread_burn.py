"""Render a thread as XML tags around YAML maps: keys in order, two spaces, plain scalars.

    <user_message>
      from: c15d31e2-b3ee-4ca6-b90b-1596d739d4fd
      id: cea5082a-4e13-4dac-b418-9c2d78d5d2ee
      text: I like chess
    </user_message>

Text cannot end its line or its tag: angle brackets and ampersands are entities, and what is not a
plain scalar in YAML is quoted.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from walagent.domain.thread import ThreadEvent, ThreadView
from walagent.domain.untrusted import without_control
from walagent.message import Json

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# A scalar that YAML reads back as the same text: it begins with no indicator, ends with no colon or
# space, and holds neither ": " nor " #".
_PLAIN = re.compile(r"(?![-?:,\[\]{}#&*!|>'\"%@`=~\s])(?:(?!: | #)[^\n\t\r])*(?<![:\s])")
_OTHER = re.compile(  # what YAML reads as a truth value, nothing, a number or a date; never a UUID
    r"""(?ix) true | false | yes | no | on | off | y | n | null
    | \+? (?: 0b[01_]+ | 0o[0-7_]+ | 0x[0-9a-f_]+ | \.inf ) | \.nan
    | \+? (?: [0-9][0-9_]* (?: :[0-5]?[0-9] )* (?: \.[0-9_]* )? | \.[0-9_]+ ) (?: e[-+]?[0-9]+ )?
    | [0-9]{4} (?: -[0-9]{1,2} ){2} (?: [t\ ] [-+0-9:.z\ ]* )?"""
)


def render_burn(view: ThreadView) -> str:
    """Render what the model is shown of a thread."""
    blocks = [_block(event) for event in view.shown]
    if view.summary:
        blocks.insert(0, _tagged("summary", {"text": view.summary}))
    return "\n\n".join(
        ["Here's everything that happened so far:", *blocks, "What's the next step?"]
    )


def _block(event: ThreadEvent) -> str:
    data, head = event.data, {"from": event.author_id, "id": event.id}
    match event.type:
        case "text":
            kind = "agent_message" if event.is_by_agent else "user_message"
            return _tagged(kind, {**head, "text": data.get("text")})
        case "tool_use":
            return _tagged(str(data["name"]), {"from": event.author_id, **data})
        case "tool_result":
            rest = {key: value for key, value in data.items() if key != "tool_name"}
            return _tagged(f"{data['tool_name']}_result", {"from": event.author_id, **rest})
        case _ if data.get("action") == "injected":
            return _tagged("context", {"text": data.get("text")})
        case _:
            who = "agent" if event.is_by_agent else "user"
            shown = {key: data[key] for key in ("action", "target") if key in data}
            return _tagged(
                "system_message", {**shown, who: {"id": event.author_id, "name": event.author}}
            )


def _tagged(tag: str, value: Mapping[str, Json]) -> str:
    tag = re.sub(r"[^A-Za-z0-9_.-]", "_", tag)
    return "\n".join([f"<{tag}>", *_map(value, 1), f"</{tag}>"])


def _map(value: Mapping[str, Json], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for key in sorted(value):
        yield from _entry(f"{pad}{_scalar(key)}:", value[key], depth)


def _entry(head: str, value: Json, depth: int) -> Iterator[str]:
    if value and isinstance(value, dict):
        yield head
        yield from _map(cast("Mapping[str, Json]", value), depth + 1)
    elif value and isinstance(value, list):
        yield head
        yield from _list(cast("Sequence[Json]", value), depth + 1)
    else:
        yield f"{head} {_scalar(value)}"


def _list(values: Sequence[Json], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for value in values:
        yield from _entry(f"{pad}-", value, depth)


def _scalar(value: Json) -> str:
    match value:
        case str():
            text = without_control(value).translate(_ENTITIES)
            if text and _PLAIN.fullmatch(text) and not _OTHER.fullmatch(text):
                return text
            return json.dumps(text, ensure_ascii=False)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "{}"
        case list():
            return "[]"
        case _:
            return str(value)
