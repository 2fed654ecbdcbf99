"""What test_decoding prints, read by a parser that shares nothing with the decoders under test.

BEGIN 731
table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 name[text]:'it''s'
table public.t, public.u: TRUNCATE: (no-flags)
COMMIT 731
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = dict[str, Any]

UNSENT = "an unchanged value that the WAL does not carry"
_NAME = r'"(?:[^"]|"")*"|[^\s."\[:,]+'
_TABLE = re.compile(rf"({_NAME})\.({_NAME})")
_COLUMN = re.compile(rf"({_NAME})\[((?:\"(?:[^\"]|\"\")*\"|[^\"\]]|\](?!:))*)\]:")
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_PLAIN = re.compile(r"\S+")
_READ = {
    "smallint": int,
    "integer": int,
    "bigint": int,
    "oid": int,
    "real": float,
    "double precision": float,
    "numeric": Decimal,
    "boolean": lambda text: text == "true",
}


@dataclass(frozen=True, slots=True)
class Event:
    """A change; of several tables truncated at once, one."""

    xid: int
    op: str
    table: str
    new: Row | None
    old: Row | None  # without columns that are NULL: they are not printed


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """Read lines in the order in which they were printed."""
    xid = 0
    for line in lines:
        if line.startswith("BEGIN "):
            xid = int(line.split()[1])
        elif line.startswith("table "):
            yield from _change(xid, line.removeprefix("table "))


def _change(xid: int, text: str) -> Iterator[Event]:
    names, at = [], 0
    while found := _TABLE.match(text, at):
        names.append(".".join(_unquoted(part) for part in found.groups()))
        at = found.end()
        if text.startswith(", ", at):
            at += 2
    _, op, rest = text[at:].split(": ", 2)
    if op == "TRUNCATE":
        for name in names:
            yield Event(xid, "truncate", name, None, None)
        return
    sides = _sides(rest, op)
    yield Event(xid, op.lower(), names[0], sides.get("new"), sides.get("old"))


def _sides(text: str, op: str) -> dict[str, Row]:
    if text == "(no-tuple-data)":
        return {}
    if text.startswith("old-key: "):
        old, at = _row(text, len("old-key: "))
        new, _ = _row(text, at + len("new-tuple: "))
        return {"old": old, "new": new}
    row, _ = _row(text, 0)
    return {"old" if op == "DELETE" else "new": row}


def _row(text: str, at: int) -> tuple[Row, int]:
    row: Row = {}
    while found := _COLUMN.match(text, at):
        name, kind = found.groups()
        row[_unquoted(name)], at = _value(text, found.end(), kind)
        at += 1  # the space
    return row, at


def _value(text: str, at: int, kind: str) -> tuple[Any, int]:
    if text[at] == "'":
        found = _QUOTED.match(text, at)
        assert found, text[at:]
        return found[1].replace("''", "'"), found.end()
    if text.startswith("B'", at):
        found = _QUOTED.match(text, at + 1)
        assert found, text[at:]
        return found[1], found.end()
    found = _PLAIN.match(text, at)
    assert found, text[at:]
    word = found[0]
    if word == "null":
        return None, found.end()
    if word == "unchanged-toast-datum":
        return UNSENT, found.end()
    return _READ.get(kind.partition("(")[0], str)(word), found.end()


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
