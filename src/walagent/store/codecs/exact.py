"""JSON with all of its digits, in and out: an amount or a key must not pass through a float."""

import json
import re
from decimal import Decimal

import orjson

from walagent.message import Json

# So many digits in a row may be more than a float or 64 bits hold; a document with fewer is read
# by orjson, which is several times faster.
_MANY_DIGITS = re.compile(rb"[0-9.]{16}")
_LARGEST = 2**63


def read_json(data: bytes | str) -> Json:
    """Read JSON; a number that float or 64 bits would change becomes a Decimal."""
    raw = data.encode() if isinstance(data, str) else bytes(data)
    if _MANY_DIGITS.search(raw) is None:
        return orjson.loads(raw)
    return json.loads(raw, parse_float=_fraction, parse_int=_integer)


def exact(value: object) -> orjson.Fragment:
    """Write a Decimal with all of its digits; orjson has no form of its own for it."""
    if not isinstance(value, Decimal):
        raise TypeError(f"no JSON form for {type(value).__name__}")
    return orjson.Fragment(str(value) if value.is_finite() else f'"{value}"')


def _fraction(text: str) -> float | Decimal:
    number = Decimal(text)
    return float(text) if Decimal(repr(float(text))) == number else number


def _integer(text: str) -> int | Decimal:
    number = int(text)
    return number if -_LARGEST <= number < _LARGEST else Decimal(text)
