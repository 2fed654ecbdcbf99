"""How the text of a value in the stream is read, by the OID of its type."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Final

from walagent import pgtypes

Parsed = int | float | Decimal | bool | str


class Kind(Enum):
    """How the text of a value is read."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    NUMERIC = "numeric"
    TEXT = "text"


_KINDS: Final[Mapping[int, Kind]] = {
    pgtypes.BOOL: Kind.BOOL,
    **dict.fromkeys((*pgtypes.INTEGERS, pgtypes.OID), Kind.INT),
    **dict.fromkeys(pgtypes.FLOATS, Kind.FLOAT),
    pgtypes.NUMERIC: Kind.NUMERIC,
}


def kind_of(type_oid: int) -> Kind:
    """Say how values of the type are read; TEXT for every type without a rule of its own."""
    return _KINDS.get(type_oid, Kind.TEXT)


def _bool(text: str) -> bool:
    match text:
        case "t":
            return True
        case "f":
            return False
        case _:
            raise ValueError(f"not a boolean: {text!r}")


PARSERS: Final[Mapping[Kind, Callable[[str], Parsed]]] = {
    Kind.INT: int,
    Kind.FLOAT: float,
    Kind.BOOL: _bool,
    Kind.NUMERIC: Decimal,
    Kind.TEXT: str,
}
