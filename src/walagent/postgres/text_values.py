"""Parse values from their text format, by type OID."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Final

from walagent.postgres import pgtypes

Parsed = int | float | Decimal | bool | str


class ValueKind(Enum):
    """The parser of a value's text."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    NUMERIC = "numeric"
    TEXT = "text"


_KINDS: Final[Mapping[int, ValueKind]] = {
    pgtypes.BOOL: ValueKind.BOOL,
    **dict.fromkeys((*pgtypes.INTEGERS, pgtypes.OID), ValueKind.INT),
    **dict.fromkeys(pgtypes.FLOATS, ValueKind.FLOAT),
    pgtypes.NUMERIC: ValueKind.NUMERIC,
}


def kind_of(type_oid: int) -> ValueKind:
    """Return the kind of a type; TEXT for a type without its own parser."""
    return _KINDS.get(type_oid, ValueKind.TEXT)


def _bool(text: str) -> bool:
    match text:
        case "t":
            return True
        case "f":
            return False
        case _:
            raise ValueError(f"invalid boolean {text!r}")


PARSERS: Final[Mapping[ValueKind, Callable[[str], Parsed]]] = {
    ValueKind.INT: int,
    ValueKind.FLOAT: float,
    ValueKind.BOOL: _bool,
    ValueKind.NUMERIC: Decimal,
    ValueKind.TEXT: str,
}
