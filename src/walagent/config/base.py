"""The base class of the configuration's models, and the types of its values."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

# Not parsed by pydantic: its timedelta accepts 7 days but neither 30s nor 2 minutes, and 1 MB of
# its ByteSize is 1000 kB, while 1 MB of PostgreSQL's settings is 1024 kB.
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*")

_SIZES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_THREE_DIGITS = 100
_SIZE = r"(\d+(\.\d+)?)\s*(B|kB|MB|GB|TB)"
_SIZE_SCHEMA = {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": rf"^\s*{_SIZE}\s*$"}]
}

_UNIT = r"(ms|s(ec(ond)?s?)?|m(in(ute)?s?)?|h(ours?)?|d(ays?)?|w(eeks?)?)"
_TIME = rf"^\s*(\d+(\.\d+)?\s*{_UNIT}\s*)+$"
_TIME_SCHEMA = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _TIME}]}


class Part(BaseModel):
    """A part of the configuration: immutable; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def to_seconds(value: object) -> object:
    """Convert ``30``, ``30s``, ``2 minutes`` or ``1h 30m`` to seconds.

    Raises:
        ValueError: a string in another format.
    """
    if not isinstance(value, str) or not value.strip() or _is_number(value):
        return value
    rest = value.strip().lower()
    if not re.fullmatch(_TIME, rest):
        raise ValueError("must be a time such as 30s, 2 minutes or 7 days")
    return sum(float(number) * _UNITS[_unit(unit)] for number, unit in _PART.findall(rest))


def to_bytes(value: object) -> object:
    """Convert ``1048576``, ``512 MB`` or ``1.5GB`` to bytes; 1 kB is 1024 B, as in PostgreSQL.

    Raises:
        ValueError: a string in another format.
    """
    if not isinstance(value, str) or not value.strip() or _is_number(value):
        return value
    if (found := re.fullmatch(_SIZE, value.strip())) is None:
        raise ValueError("must be a size such as 512MB, 1 GB or 1048576")
    return int(float(found[1]) * _SIZES[found[3]])


def in_bytes(count: int) -> str:
    """Format a size as `to_bytes` reads it, with three significant digits."""
    unit = next((unit for unit in ("TB", "GB", "MB", "kB") if count >= _SIZES[unit]), "B")
    number = count / _SIZES[unit]
    return f"{number:.0f} {unit}" if number >= _THREE_DIGITS else f"{number:.3g} {unit}"


def _unit(word: str) -> str:
    return word if word == "ms" else word[0]


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"\s*\d+(\.\d+)?\s*", text))


def _to_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _lower(value: object) -> object:
    if isinstance(value, str):
        return value.lower()
    if isinstance(value, list):
        return [_lower(item) for item in cast("Sequence[object]", value)]
    return value


def one_or_many(item: dict[str, Any]) -> WithJsonSchema:
    """Return the JSON schema of what `to_list` accepts."""
    return WithJsonSchema({"anyOf": [item, {"type": "array", "items": item}]})


lower = BeforeValidator(_lower)
to_list = BeforeValidator(_to_list)

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[_Positive, BeforeValidator(to_seconds), WithJsonSchema(_TIME_SCHEMA)]
_Count = Annotated[int, Field(gt=0)]
Bytes = Annotated[_Count, BeforeValidator(to_bytes), WithJsonSchema(_SIZE_SCHEMA)]
Duration = Annotated[
    timedelta, Field(gt=timedelta(0)), BeforeValidator(to_seconds), WithJsonSchema(_TIME_SCHEMA)
]

Name = Annotated[str, Field(min_length=1)]
# One name, or a list of them.
Names = Annotated[tuple[Name, ...], to_list, one_or_many({"type": "string", "minLength": 1})]

_CREDENTIAL = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"


def _is_a_name(value: str) -> str:
    if value.startswith("sk-") or not re.fullmatch(_CREDENTIAL, value):
        raise ValueError("must be the name of a variable or credential, not the key itself")
    return value


CredentialName = Annotated[
    str,
    AfterValidator(_is_a_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_CREDENTIAL}$"}),
]
