"""A call that a model wrote into its text, because its server does not parse calls.  Pure.

Such a call is never carried out: a text may quote a row.  The model receives an error, and at
last the run fails with the reason.
"""

import re
from collections.abc import Collection

import orjson

from walagent.message import Json
from walagent.models.replies import as_array, as_object

_START = re.compile(
    r"<\|?/?tool_?calls?(?:_begin|_section_begin)?\|?>|<function(?:_calls?)?\b|<(?:\w+:)?invoke\b"
    r"|\[TOOL_CALLS\]|\[TOOL_REQUEST\]|<\|python_tag\|>|<\uff5ctool\u2581calls?\u2581begin\uff5c>"
    r"|\bto=functions\.|<\|tool_call_(?:begin|start)\|>|```(?:json|tool_call|tool_code)\s*\{",
    re.IGNORECASE,
)
_NEAR = 2_000  # characters behind a start in which the name is looked for
_LONGEST = 100_000  # characters of a text that is read as JSON
_ARGUMENTS = frozenset({"arguments", "parameters", "args", "input"})


def written_call(text: str, tools: Collection[str]) -> str | None:
    """Return the name of the tool that a text calls; None if it is a text."""
    if (name := _of_json(text, tools)) is not None:
        return name
    for found in _START.finditer(text):
        near = text[found.start() : found.start() + _NEAR]
        named = {tool: at for tool in tools if (at := _place(tool, near)) is not None}
        if named:
            return min(named, key=lambda tool: named[tool])
    return None


def _place(tool: str, text: str) -> int | None:
    found = re.search(rf"(?<![A-Za-z0-9_]){re.escape(tool)}(?![A-Za-z0-9_])", text)
    return None if found is None else found.start()


def _of_json(text: str, tools: Collection[str]) -> str | None:
    """Read a text that is nothing but a call as JSON, or several."""
    bare = text.strip()
    if len(bare) > _LONGEST or bare[:1] not in {"{", "["}:
        return None
    try:
        value: Json = orjson.loads(bare)
    except orjson.JSONDecodeError:
        return None
    value = as_object(value).get("tool_calls") or value
    for one in as_array(value) or [value]:
        call = as_object(one)
        call = as_object(call.get("function")) or call
        if call.get("name") in tools and _ARGUMENTS & call.keys():
            return str(call["name"])
    return None
