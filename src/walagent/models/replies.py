"""What of a provider's answer may enter the database: bounded, and storable as jsonb.

Nothing is repaired.  Text loses what PostgreSQL cannot hold, visibly; arguments that cannot be
stored exactly become None, and `raw` shows the model what it sent.
"""

import json
import re
from collections.abc import Mapping
from functools import reduce
from typing import NoReturn, cast

import orjson

from walagent.message import Json, ToolCall

TEXT_LIMIT = 1_000_000  # characters of one text part: a reply is one row
ARGUMENTS_LIMIT = 1_000_000  # bytes of JSON of one call
RAW_LIMIT = 2_000  # characters of unusable arguments that the model gets to see again
NAME_LIMIT = 200  # characters of ids and names; the longest a provider makes is 64
COUNT_LIMIT = 100_000_000  # tokens of one kind; no window is as large, and four fit an integer

_LEVELS = 16  # around a value where it is stored and sent

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # an escaped NUL, not an escaped backslash
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str, limit: int = TEXT_LIMIT) -> str:
    """Replace NUL by U+2400 and lone surrogates by U+FFFD, and cut at *limit* characters."""
    cut = text[:limit]
    if "\0" in cut:
        cut = cut.replace("\0", "\u2400")
    if not cut.isascii():
        cut = _SURROGATE.sub("\ufffd", cut)
    return cut if len(text) <= limit else f"{cut}\n[cut after {limit} characters]"


def read_call(call_id: str, name: str, text: str) -> ToolCall:
    """Make a call whose arguments came as JSON text; no text at all means no arguments."""
    call_id, name = clean(call_id, NAME_LIMIT), clean(name, NAME_LIMIT)
    arguments = _arguments(text.strip() or "{}")
    if arguments is None:
        return ToolCall(call_id, name, None, clean(text[:RAW_LIMIT]))
    return ToolCall(call_id, name, arguments)


def read_call_value(call_id: str, name: str, value: Json) -> ToolCall:
    """Make a call whose arguments came as a decoded JSON value."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = "arguments nested too deeply"
    return read_call(call_id, name, text)


def storable(value: Json) -> bool:
    """Tell whether jsonb can hold *value* exactly, and in a bounded size.

    orjson refuses what the store could not write: numbers past 64 bits, lone surrogates, and more
    than 254 levels, some of which are the step's and the request's own.
    """
    try:
        document = orjson.dumps(reduce(lambda inner, _: [inner], range(_LEVELS), value))
    except TypeError:
        return False
    return len(document) <= TEXT_LIMIT and _NUL.search(document) is None


def as_object(value: Json) -> dict[str, Json]:
    """Give *value* if it is a JSON object, else an empty one."""
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


def as_array(value: Json) -> list[Json]:
    """Give *value* if it is a JSON array, else an empty one."""
    return cast("list[Json]", value) if isinstance(value, list) else []


def count(value: Json) -> int:
    """Read a token count; what is not one counts as nothing, and what cannot be is bounded."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return min(value, COUNT_LIMIT) if whole and value > 0 else 0


def _arguments(text: str) -> Mapping[str, Json] | None:
    if len(text) > ARGUMENTS_LIMIT:
        return None
    try:
        value = json.loads(
            text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unambiguous
        )
    except (ValueError, RecursionError):
        return None
    return as_object(value) if isinstance(value, dict) and storable(value) else None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _unambiguous(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Refuse an object that names something twice: readers differ in which one they believe."""
    given = dict(pairs)
    return given if len(given) == len(pairs) else _refuse("a name that stands twice")


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _refuse(text)
