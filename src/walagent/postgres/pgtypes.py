"""PostgreSQL's built-in types: their fixed OIDs, names and arrays.

The numbers come from psycopg's registry, which is generated from PostgreSQL's catalog.

Source: PostgreSQL's pg_type.dat, format_type.c and transam.h.
"""

from collections.abc import Mapping
from typing import Final

from psycopg.postgres import types

FIRST_OF_USERS: Final = 16_384  # OIDs below are built in: transam.h, FirstNormalObjectId

BOOL: Final = types["bool"].oid
BYTEA: Final = types["bytea"].oid
CHAR: Final = types['"char"'].oid  # one byte, used by the system catalogs
NAME: Final = types["name"].oid
INT8: Final = types["int8"].oid
INT2: Final = types["int2"].oid
INT4: Final = types["int4"].oid
TEXT: Final = types["text"].oid
OID: Final = types["oid"].oid
JSON: Final = types["json"].oid
FLOAT4: Final = types["float4"].oid
FLOAT8: Final = types["float8"].oid
MONEY: Final = types["money"].oid
BPCHAR: Final = types["bpchar"].oid
VARCHAR: Final = types["varchar"].oid
DATE: Final = types["date"].oid
TIME: Final = types["time"].oid
TIMETZ: Final = types["timetz"].oid
TIMESTAMP: Final = types["timestamp"].oid
TIMESTAMPTZ: Final = types["timestamptz"].oid
INTERVAL: Final = types["interval"].oid
BIT: Final = types["bit"].oid
VARBIT: Final = types["varbit"].oid
NUMERIC: Final = types["numeric"].oid
UUID: Final = types["uuid"].oid
JSONB: Final = types["jsonb"].oid

INTEGERS: Final = frozenset({INT2, INT4, INT8})
FLOATS: Final = frozenset({FLOAT4, FLOAT8})
NUMBERS: Final = INTEGERS | FLOATS | {NUMERIC}
TEXTS: Final = frozenset({CHAR, NAME, TEXT, BPCHAR, VARCHAR})

# Types of fixed length, of which PostgreSQL never stores a value out of line (TOAST).
FIXED_LENGTH: Final = frozenset({
    BOOL, CHAR, NAME, OID, MONEY, UUID, DATE, TIME, TIMETZ, TIMESTAMP, TIMESTAMPTZ, INTERVAL,
    *INTEGERS, *FLOATS,
})  # fmt: skip

_NAMES: Final[Mapping[int, str]] = {each.oid: each.regtype for each in types}
_ELEMENTS: Final[Mapping[int, int]] = {each.array_oid: each.oid for each in types if each.array_oid}

# By the names in pg_type, which differ from those of SQL for the oldest types: int4 is integer.
SQL_NAMES: Final[Mapping[str, str]] = {each.name: each.regtype for each in types} | {
    f"_{each.name}": f"{each.regtype}[]" for each in types
}

_TIMES: Final = frozenset({TIME, TIMETZ, TIMESTAMP, TIMESTAMPTZ})
_LENGTH_WITH_HEADER: Final = frozenset({BPCHAR, VARCHAR})  # typmod counts a 4-byte header
_BITS: Final = frozenset({BIT, VARBIT})
_WITHOUT_LENGTH: Final = {BPCHAR: "bpchar", BIT: '"bit"'}  # "character" and "bit" mean length 1


def type_name(type_oid: int, typmod: int) -> str:
    """Return the name of a built-in type as format_type() does, "" for other types.

    A *typmod* of -1 means none.
    """
    if (element := _ELEMENTS.get(type_oid)) is not None:
        return f"{type_name(element, typmod)}[]"
    name = _NAMES.get(type_oid, "")
    if typmod < 0:
        return _WITHOUT_LENGTH.get(type_oid, name)
    return _with_modifier(type_oid, name, typmod) if name else ""


def _with_modifier(type_oid: int, name: str, typmod: int) -> str:
    if type_oid in _LENGTH_WITH_HEADER:
        return f"{name}({typmod - 4})"
    if type_oid in _BITS:
        return f"{name}({typmod})"
    if type_oid == NUMERIC:  # precision, and a signed scale of 11 bits
        scale = ((typmod - 4) & 0x7FF ^ 1024) - 1024
        return f"{name}({(typmod - 4) >> 16 & 0xFFFF},{scale})"
    if type_oid in _TIMES:  # the modifier follows the first word
        first, _, rest = name.partition(" ")
        return f"{first}({typmod}) {rest}"
    return name


def element_of(type_oid: int) -> int | None:
    """Return the type of the elements of a built-in array type; None for other types."""
    return _ELEMENTS.get(type_oid)
