"""Encode and decode JSON with all digits: amounts and keys must not become floats."""

import json
import re
from decimal import Decimal

import orjson

from walagent.message import Json

# A float or 64 bits might not hold so many digits; a document without such a number is parsed
# by orjson, which is several times faster.
_MANY_DIGITS = re.compile(rb"[0-9.]{16}")
_LARGEST = 2**63


def read_json(data: bytes | str) -> Json:
    """Parse JSON; a number that a float or 64 bits would change becomes a Decimal."""
    raw = data.encode() if isinstance(data, str) else bytes(data)
    if _MANY_DIGITS.search(raw) is None:
        return orjson.loads(raw)
    return json.loads(raw, parse_float=_fraction, parse_int=_integer)


def exact(value: object) -> orjson.Fragment:
    """Encode a Decimal with all digits, which orjson cannot."""
    if not isinstance(value, Decimal):
        raise TypeError(f"cannot encode {type(value).__name__} as JSON")
    return orjson.Fragment(str(value) if value.is_finite() else f'"{value}"')


def _fraction(text: str) -> float | Decimal:
    number = Decimal(text)
    return float(text) if Decimal(repr(float(text))) == number else number


def _integer(text: str) -> int | Decimal:
    number = int(text)
    return number if -_LARGEST <= number < _LARGEST else Decimal(text)
