"""PostgreSQL's types as the stream needs them: how a value's text is read, how a type is named.

Both are decided by the type's OID alone; those of built-in types never change.

Source: PostgreSQL's pg_type.dat and format_type.c.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Final

Parsed = int | float | Decimal | bool | str


class Kind(Enum):
    """How the text of a value is read."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    NUMERIC = "numeric"
    TEXT = "text"


_KINDS: Final[Mapping[int, Kind]] = {
    16: Kind.BOOL,
    20: Kind.INT,
    21: Kind.INT,
    23: Kind.INT,
    26: Kind.INT,
    700: Kind.FLOAT,
    701: Kind.FLOAT,
    1700: Kind.NUMERIC,
}

_NAMES: Final[Mapping[int, str]] = {
    16: "boolean",
    17: "bytea",
    18: '"char"',
    19: "name",
    20: "bigint",
    21: "smallint",
    22: "int2vector",
    23: "integer",
    24: "regproc",
    25: "text",
    26: "oid",
    27: "tid",
    28: "xid",
    29: "cid",
    30: "oidvector",
    114: "json",
    142: "xml",
    600: "point",
    601: "lseg",
    602: "path",
    603: "box",
    604: "polygon",
    628: "line",
    650: "cidr",
    700: "real",
    701: "double precision",
    718: "circle",
    774: "macaddr8",
    790: "money",
    829: "macaddr",
    869: "inet",
    1042: "character",
    1043: "character varying",
    1082: "date",
    1083: "time without time zone",
    1114: "timestamp without time zone",
    1184: "timestamp with time zone",
    1186: "interval",
    1266: "time with time zone",
    1560: "bit",
    1562: "bit varying",
    1700: "numeric",
    2205: "regclass",
    2206: "regtype",
    2950: "uuid",
    3220: "pg_lsn",
    3614: "tsvector",
    3615: "tsquery",
    3802: "jsonb",
    3904: "int4range",
    3906: "numrange",
    3908: "tsrange",
    3910: "tstzrange",
    3912: "daterange",
    3926: "int8range",
    4072: "jsonpath",
    4451: "int4multirange",
    4532: "nummultirange",
    4533: "tsmultirange",
    4534: "tstzmultirange",
    4535: "datemultirange",
    4536: "int8multirange",
    5069: "xid8",
}

_ELEMENTS: Final[Mapping[int, int]] = {
    143: 142,
    199: 114,
    651: 650,
    1000: 16,
    1001: 17,
    1002: 18,
    1003: 19,
    1005: 21,
    1007: 23,
    1009: 25,
    1014: 1042,
    1015: 1043,
    1016: 20,
    1017: 600,
    1021: 700,
    1022: 701,
    1028: 26,
    1040: 829,
    1041: 869,
    1115: 1114,
    1182: 1082,
    1183: 1083,
    1185: 1184,
    1187: 1186,
    1231: 1700,
    1270: 1266,
    1561: 1560,
    1563: 1562,
    2951: 2950,
    3807: 3802,
    3905: 3904,
    3907: 3906,
    3909: 3908,
    3911: 3910,
    3913: 3912,
    3927: 3926,
}

_TIMES: Final = frozenset({1083, 1114, 1184, 1266})
_LENGTH_WITH_HEADER: Final = frozenset({1042, 1043})  # typmod counts a 4-byte header
_BITS: Final = frozenset({1560, 1562})


def kind_of(type_oid: int) -> Kind:
    """Say how values of the type are read; TEXT for every type without a rule of its own."""
    return _KINDS.get(type_oid, Kind.TEXT)


def type_name(type_oid: int, typmod: int) -> str:
    """Name a built-in type as format_type() does, or return "" for any other.

    A *typmod* of -1 means that there is none.
    """
    if (element := _ELEMENTS.get(type_oid)) is not None:
        return f"{type_name(element, typmod)}[]"
    name = _NAMES.get(type_oid, "")
    if type_oid == 1042 and typmod < 0:  # noqa: PLR2004 - format_type()'s own exception
        return "bpchar"
    return _with_modifier(type_oid, name, typmod) if typmod >= 0 and name else name


def _with_modifier(type_oid: int, name: str, typmod: int) -> str:
    if type_oid in _LENGTH_WITH_HEADER:
        return f"{name}({typmod - 4})"
    if type_oid in _BITS:
        return f"{name}({typmod})"
    if type_oid == 1700:  # noqa: PLR2004 - numeric: precision and a scale of 11 bits with sign
        scale = ((typmod - 4) & 0x7FF ^ 1024) - 1024
        return f"{name}({(typmod - 4) >> 16 & 0xFFFF},{scale})"
    if type_oid in _TIMES:  # the modifier stands after the first word
        first, _, rest = name.partition(" ")
        return f"{first}({typmod}) {rest}"
    return name


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
