"""What of a provider's answer may enter the database: bounded, and storable as jsonb.

Nothing is repaired.  Text loses what PostgreSQL cannot hold, visibly; arguments that cannot be
stored exactly become None, and `raw` shows the model what it sent.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import NoReturn, cast

import orjson

from walagent.message import Json, Reply, Text, Thinking, ToolCall

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
    given = text.strip() or "{}"
    try:
        return ToolCall(call_id, name, _arguments("{}" if given == "null" else given))
    except _UnusableError as error:
        return ToolCall(call_id, name, None, clean(text[:RAW_LIMIT]), clean(str(error), NAME_LIMIT))


def read_call_value(call_id: str, name: str, value: Json) -> ToolCall:
    """Make a call whose arguments came as a decoded JSON value."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = "arguments nested too deeply"
    return read_call(call_id, name, text)


def storable_reply(reply: Reply) -> Reply:
    """Return a reply of any provider without what jsonb cannot hold in a text or a call."""
    parts = tuple(_storable_part(part) for part in reply.parts)
    return reply if parts == reply.parts else replace(reply, parts=parts)


def _storable_part(part: Text | Thinking | ToolCall) -> Text | Thinking | ToolCall:
    match part:
        case Text(text):
            return Text(clean(text))
        case ToolCall(id=call_id, name=name, arguments=arguments) if arguments is not None:
            written = json.dumps(arguments, default=str, ensure_ascii=False)
            if _SURROGATE.search(written) or _NUL.search(written.encode()):
                return read_call(call_id, name, written)
            return part
        case _:
            return part


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
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value <= 0 or value != value // 1:
        return 0
    return int(min(value, COUNT_LIMIT))


class _UnusableError(Exception):
    """Arguments that cannot be used, and why."""


def _arguments(text: str) -> Mapping[str, Json]:
    if len(text) > ARGUMENTS_LIMIT:
        raise _UnusableError(f"they are longer than {ARGUMENTS_LIMIT} bytes")
    value = _decoded(text)
    if isinstance(value, str) and value.lstrip().startswith("{"):  # encoded twice
        value = _decoded(value)
    if not isinstance(value, dict):
        raise _UnusableError("they are not a JSON object")
    if not storable(value):
        raise _UnusableError(_why_not(text))
    return as_object(value)


def _decoded(text: str) -> Json:
    try:
        return json.loads(
            text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unambiguous
        )
    except RecursionError:
        raise _UnusableError(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise _UnusableError(
            f"they are not valid JSON: {error.msg} at character {error.pos + 1}"
        ) from None
    except ValueError:  # of an integer with thousands of digits
        raise _UnusableError(_TOO_LARGE) from None


_TOO_DEEP = "they are nested too deeply; at most 200 levels are allowed"
_TOO_LARGE = "they have a number that is too large; write it as a string"


def _why_not(text: str) -> str:
    """Say why jsonb cannot hold decoded arguments exactly."""
    if _NUL.search(text.encode(errors="replace")) or "\0" in text:
        return "they have a NUL character (\\u0000), which no text in PostgreSQL can have"
    if re.search(r"\\u[dD][89a-fA-F]", text) or _SURROGATE.search(text):
        return "they have half of a surrogate pair, which is no character"
    return _TOO_LARGE if re.search(r"\d{19}", text) else _TOO_DEEP


def _refuse(word: str) -> NoReturn:
    raise _UnusableError(f"they have the number {word}, which is not JSON")


def _unambiguous(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Refuse an object that names something twice: readers differ in which one they believe."""
    given: dict[str, Json] = {}
    for name, value in pairs:
        if name in given:
            raise _UnusableError(f'they have the key "{name[:64]}" twice in one object')
        given[name] = value
    return given


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise _UnusableError(_TOO_LARGE)
    return number
