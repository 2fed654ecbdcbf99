"""Encode and decode JSON with all digits: amounts and keys must not become floats."""

import json
import re
from decimal import Decimal
from typing import Final

import orjson

from walagent.message import Json, Unreadable

# A float or 64 bits might not hold so many digits; a document without such a number is parsed
# by orjson, which is several times faster.
_MANY_DIGITS = re.compile(rb"[0-9.]{16}|[0-9][eE][+-]?[0-9]{3}")
_LARGEST = 2**63
_LONG = 19  # digits that 64 bits might hold; int() refuses thousands of them
_WRITTEN: Final = 254  # levels that orjson writes
_WITHIN: Final = 54  # at most, of what a document is written within
_DEEP: Final = Unreadable(f"JSON nested deeper than {_WRITTEN - _WITHIN} levels is not read")


def read_json(data: bytes | str) -> Json:
    """Parse JSON; a number that a float or 64 bits would change becomes a Decimal.

    What PostgreSQL stores raises nothing: who reads many rows reads the others.

    Returns:
        `Unreadable` for what is nested so deep that it could not be written again.
    """
    raw = data.encode() if isinstance(data, str) else bytes(data)
    may_be_deep = raw.count(b"[") + raw.count(b"{") > _WRITTEN - _WITHIN
    try:
        if _MANY_DIGITS.search(raw) is None:
            value = orjson.loads(raw)
        else:
            value = json.loads(raw, parse_float=_fraction, parse_int=_integer)
        if may_be_deep:
            orjson.dumps(_within(value), exact)
    except (RecursionError, orjson.JSONDecodeError, orjson.JSONEncodeError):
        if not may_be_deep:
            raise
        return _DEEP
    return value


def _within(value: Json) -> Json:
    for _ in range(_WITHIN):
        value = [value]
    return value


def exact(value: object) -> orjson.Fragment:
    """Encode a Decimal with all digits, which orjson cannot."""
    if not isinstance(value, Decimal):
        raise TypeError(f"cannot encode {type(value).__name__} as JSON")
    return orjson.Fragment(str(value) if value.is_finite() else f'"{value}"')


def _fraction(text: str) -> float | Decimal:
    number = Decimal(text)
    return float(text) if Decimal(repr(float(text))) == number else number


def _integer(text: str) -> int | Decimal:
    if len(text) > _LONG + 1:
        return Decimal(text)
    number = int(text)
    return number if -_LARGEST <= number < _LARGEST else Decimal(text)
