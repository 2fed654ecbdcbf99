"""Generate a decoder for one relation: source text, made from its columns and compiled once.

It decodes rows by the million: every bound that Python checks anyway is left to Python, and one
comparison at the end checks the rest.  A row that does not fit raises one of `UNFIT`; then the
general decoder (`pgoutput`) decodes the same bytes or rejects them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class, despite its name
from typing import Any, Final, cast

from walagent.domain.change import UNCHANGED, Change, Column, Op, Relation, Row
from walagent.postgres.lsn import Lsn
from walagent.postgres.text_values import ValueKind, kind_of

UNFIT: Final = (IndexError, StructError, ValueError, ArithmeticError, KeyError)

# Takes the whole frame, then commit LSN, ordinal and transaction ID of the change.
RowDecoder = Callable[[bytes, Lsn, int, int], Change]


@dataclass(frozen=True, slots=True)
class RowDecoders:
    """The decoders of one relation, by operation."""

    insert: RowDecoder
    update: RowDecoder
    delete: RowDecoder


@dataclass(slots=True)
class _Draft:
    """A `Change` under construction.

    A frozen dataclass sets each field through object.__setattr__, which costs more than decoding
    a small row.  This class has the same slots, so the complete object can become a `Change`.
    """

    commit_lsn: Lsn
    ordinal: int
    op: Op
    relation: Relation
    new: Row | None
    old: Row | None
    xid: int


def make_change(  # noqa: PLR0913, PLR0917 - the fields of a Change
    commit_lsn: Lsn,
    ordinal: int,
    op: Op,
    relation: Relation,
    new: Row | None,
    old: Row | None,
    xid: int,
) -> Change:
    """Build a `Change` without the cost of a frozen dataclass."""
    draft = _Draft(commit_lsn, ordinal, op, relation, new, old, xid)
    draft.__class__ = Change  # pyright: ignore[reportAttributeAccessIssue]
    return cast("Change", cast("object", draft))


def compile_rows(relation: Relation, base: int) -> RowDecoders:
    """Generate and compile the decoders of *relation*.

    The message starts at *base* in the bytes that they decode.
    """
    bind = _compiled(relation.columns, base)
    return RowDecoders(*bind(relation))


@lru_cache(maxsize=1024)
def _compiled(columns: Sequence[Column], base: int) -> Callable[[Relation], Sequence[RowDecoder]]:
    scope: dict[str, Any] = dict(_SCOPE)
    exec(compile(_source(columns, base), "<row decoder>", "exec"), scope)  # noqa: S102 - see below
    return scope["bind"]


_SCOPE: Final[dict[str, Any]] = {
    "head": Struct(">BI").unpack_from,
    "size": Struct(">I").unpack_from,
    "Decimal": Decimal,
    "UNCHANGED": UNCHANGED,
    "BOOLS": {b"t": True, b"f": False},
    "new": object.__new__,  # what calling the class does, without the call of its __init__
    "Draft": _Draft,
    "Change": Change,
    "INSERT": Op.INSERT,
    "UPDATE": Op.UPDATE,
    "DELETE": Op.DELETE,
}

_TEXT_TO_VALUE: Final = {
    ValueKind.INT: "int(data[a:o])",
    ValueKind.FLOAT: "float(data[a:o])",
    ValueKind.BOOL: "BOOLS[data[a:o]]",
    ValueKind.NUMERIC: "Decimal(data[a:o].decode())",
    ValueKind.TEXT: "data[a:o].decode()",
}

# Column names are the only external text, and repr() quotes them: no part of a name can become
# code.
_SOURCE: Final = """\
def bind(relation):
    def key(data, o):
{key}
    def full(data, o):
{full}
    def old_and_new(data, o):
        part = data[o]
        if part == 78:
            return None, o
        if part == 75:
            old, o = key(data, o + 1)
        elif part == 79:
            old, o = full(data, o + 1)
        else:
            raise ValueError
        return old, o
    def insert(data, commit_lsn, ordinal, xid):
        if data[{part}:{part} + 3] != {new}:
            raise ValueError
        o = {part} + 3
{row}
        if o != len(data):
            raise ValueError
        change = new(Draft)
        change.commit_lsn, change.ordinal, change.op = commit_lsn, ordinal, INSERT
        change.relation, change.xid = relation, xid
        change.new = {names}
        change.old = None
        change.__class__ = Change
        return change
    def update(data, commit_lsn, ordinal, xid):
        old, o = old_and_new(data, {part})
        if data[o:o + 3] != {new}:
            raise ValueError
        o += 3
{row}
        if o != len(data):
            raise ValueError
        change = new(Draft)
        change.commit_lsn, change.ordinal, change.op = commit_lsn, ordinal, UPDATE
        change.relation, change.xid = relation, xid
        change.new = {names}
        change.old = old
        change.__class__ = Change
        return change
    def delete(data, commit_lsn, ordinal, xid):
        old, o = old_and_new(data, {part})
        if old is None or o != len(data):
            raise ValueError
        change = new(Draft)
        change.commit_lsn, change.ordinal, change.op = commit_lsn, ordinal, DELETE
        change.relation, change.xid = relation, xid
        change.new = None
        change.old = old
        change.__class__ = Change
        return change
    return insert, update, delete
"""


def _source(columns: Sequence[Column], base: int) -> str:
    row = _row(columns)
    start = (
        f"        if data[o:o + 2] != {_width(columns)}:\n"
        "            raise ValueError\n"
        "        o += 2"
    )
    return _SOURCE.format(
        part=base + 5,
        new=b"N" + _width(columns),
        row=row,
        names=_names(columns, only_key=False),
        full=f"{start}\n{row}\n        return {_names(columns, only_key=False)}, o",
        key=f"{start}\n{row}\n        return {_names(columns, only_key=True)}, o",
    )


def _width(columns: Sequence[Column]) -> bytes:
    return len(columns).to_bytes(2, "big")


def _names(columns: Sequence[Column], *, only_key: bool) -> str:
    pairs = (
        f"{column.name!r}: c{number}"
        for number, column in enumerate(columns)
        if column.in_key or not only_key
    )
    return "{" + ", ".join(pairs) + "}"


def _row(columns: Sequence[Column]) -> str:
    lines = ["pass"]  # a relation can have no columns
    for number, column in enumerate(columns):
        # `head` reads kind and length at once; near the end, NULLs can leave fewer bytes than that.
        near_end = number >= len(columns) - 4
        lines += _column(f"c{number}", _TEXT_TO_VALUE[kind_of(column.type_oid)], near_end=near_end)
    return "\n".join(f"        {line}" for line in lines)


def _column(name: str, value: str, *, near_end: bool) -> list[str]:
    size = ["k = data[o]", "if k == 116:", "    (n,) = size(data, o + 1)"]
    return [
        *(size if near_end else ["k, n = head(data, o)", "if k == 116:"]),
        "    a = o + 5",
        "    o = a + n",
        f"    {name} = {value}",
        "elif k == 110:",
        f"    {name} = None",
        "    o += 1",
        "elif k == 117:",
        f"    {name} = UNCHANGED",
        "    o += 1",
        "else:",
        "    raise ValueError",
    ]
