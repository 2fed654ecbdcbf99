"""Constants of a stored rule as text that PostgreSQL reads back: those whose bytes are plain.

Little-endian servers are taken for granted; another one would only make a check find nothing.

Source: src/backend/nodes/outfuncs.c, outDatum(); the types' own headers for what the bytes mean.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Final

from walagent.ask.fanout.rule import Item
from walagent.postgres import pgtypes

Labels = Mapping[tuple[int, int], str]  # of enum values, by type and OID

_HEADER: Final = 4  # bytes before a text


def literal(item: Item, labels: Labels) -> str | None:
    """Write a constant; None where it is NULL, none at all, or of a type that is not plain."""
    data = _bytes(item)
    if item.kind != "CONST" or item.word("constisnull") == "true" or data is None:
        return None
    kind = item.number("consttype")
    if (label := labels.get((kind, _integer(data)))) is not None:
        return label
    reads = _READS.get(kind)
    try:
        return reads(data) if reads else None
    except (ValueError, OverflowError):
        return None


def as_integer(item: Item) -> int:
    """Give the bytes of a constant as a number, which may be the OID of an enum's value."""
    return _integer(_bytes(item) or b"")


def _bytes(item: Item) -> bytes | None:
    """Read ``8 [ 1 0 0 0 0 0 0 0 ]``, where bytes above 127 are negative."""
    words = [word for word in item.fields.get("constvalue", []) if isinstance(word, str)]
    try:
        length, *data = (int(word) for word in words if word not in {"[", "]"})
    except ValueError:
        return None
    return bytes(each & 0xFF for each in data[:length])


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _text(data: bytes) -> str:
    if _integer(data[:_HEADER]) != len(data) * 4:
        raise ValueError("compressed, or with a short header")
    return data[_HEADER:].decode()


def _day(data: bytes) -> str:
    return (date(2000, 1, 1) + timedelta(_integer(data))).isoformat()


def _time(data: bytes) -> str:
    at = datetime(2000, 1, 1) + timedelta(microseconds=_integer(data))  # noqa: DTZ001 - see below
    return f"{at.isoformat(sep=' ')}+00"  # a timestamp without zone ignores the zone


_READS: Final[Mapping[int, Callable[[bytes], str]]] = {
    pgtypes.BOOL: lambda data: "t" if data[0] else "f",
    **dict.fromkeys(pgtypes.INTEGERS, lambda data: str(_integer(data))),
    **dict.fromkeys((pgtypes.TEXT, pgtypes.BPCHAR, pgtypes.VARCHAR), _text),
    pgtypes.DATE: _day,
    **dict.fromkeys((pgtypes.TIMESTAMP, pgtypes.TIMESTAMPTZ), _time),
}
