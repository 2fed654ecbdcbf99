"""Collect the rows that the transactions of runs changed, as agent.row_change has them.  No I/O.

Values are written as PostgreSQL's output functions write them.  What a row was before is known from
the WAL with replica identity full, or if the same transaction has written the row before.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from walagent.domain.change import UNCHANGED, Begin, Change, Op, Relation, Row, Value
from walagent.matching.origin import Origin
from walagent.postgres import pgtypes

MOST_ROWS: Final = 10_000  # changes of one transaction that are recorded
# Characters of a value that is recorded; agent_internal.short_values() has the same limit.
MOST_TEXT: Final = 65_536
_FOLLOWED: Final = 4 << 20  # characters of the rows of one transaction that are followed
_OURS: Final = frozenset({"agent", "agent_internal", "agent_call", "agent_signed"})
_STRAY: Final = re.compile("[\ud800-\udfff]")  # bytes that are not text, as they were decoded
_EXPONENT: Final = {pgtypes.FLOAT4: 6}  # from which power of ten on a float has an exponent
_KEYED: Final = frozenset({"d"})  # replica identities whose columns are the primary key

Texts = dict[str, str | None]


@dataclass(slots=True)
class Recorded:
    """What is recorded beside the runs of a batch; see agent_internal.record_row_changes()."""

    changes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    # Run, transaction, commit LSN, time of the commit.
    ended: list[tuple[int, int, str, str]] = field(default_factory=list[tuple[int, int, str, str]])
    # Changes, by others, of rows that agents wrote; see agent_internal.take_corrections().
    others: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def __bool__(self) -> bool:
        """Return whether there is something to record."""
        return bool(self.changes or self.ended or self.others)

    def extend(self, other: "Recorded") -> None:
        """Add what another transaction has."""
        self.changes.extend(other.changes)
        self.ended.extend(other.ended)
        self.others.extend(other.others)

    def document(self, *, is_part: bool = False) -> dict[str, Any]:
        """Return the parameter of agent_internal.record_row_changes().

        Args:
            is_part: whether it is of a part of one large transaction.
        """
        return {
            "changes": self.changes,
            "ended": self.ended,
            "others": self.others,
            "is_part": is_part,
        }


@dataclass(slots=True)
class Recording:
    """The changes of one transaction of a run."""

    begin: Begin
    origin: Origin
    _count: int = 0
    _size: int = 0  # characters of the rows that are followed
    # By the description of the table and the key: the row as the transaction left it so far.
    _rows: dict[tuple[int, tuple[str | None, ...]], Texts] = field(
        default_factory=dict["tuple[int, tuple[str | None, ...]]", Texts]
    )
    _more: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])

    def take(self, changes: Sequence[Change]) -> dict[str, Any] | None:
        """Return the entry of changes of one relation; None if nothing of them is recorded."""
        relation = changes[0].relation
        if relation.schema in _OURS:
            return None
        key = _key_columns(relation)
        rows = [self._row(change, key) for change in changes[: max(0, MOST_ROWS - self._count)]]
        self._count += len(rows)
        if left := changes[len(rows) :]:
            first: dict[str, Any] = {"key": key, "rows": [], "more": 0, "more_at": left[0].ordinal}
            more = self._more.setdefault(id(relation), self._head(relation) | first)
            more["more"] += len(left)
        return {**self._head(relation), "key": key, "rows": rows} if rows else None

    def end(self) -> Recorded:
        """Return what is recorded when the transaction is complete."""
        if not (self._count or self._more or self.origin.has_before or self.origin.reverts):
            return Recorded()
        return Recorded(list(self._more.values()), [ended(self.origin.run_id, self.begin)])

    def _head(self, relation: Relation) -> dict[str, Any]:
        return {"run": self.origin.run_id, **head_of(self.begin, relation)}

    def _row(self, change: Change, key: Sequence[str] | None) -> dict[str, Any]:
        types = {column.name: column.type_oid for column in change.relation.columns}
        old, lacking = texts_of(change.old, types)
        new, more = texts_of(change.new, types)
        is_first = True
        if key is not None and change.op is not Op.TRUNCATE:
            old, new, is_first = self._followed(change, key, old, new)
        if change.op is Op.DELETE:  # without replica identity full, the WAL has the key alone
            lacking |= types.keys() - (old or {}).keys()
        row: dict[str, Any] = {
            "n": change.ordinal,
            "op": change.op.value,
            "old": old,
            "new": new,
            "first": is_first,
            "omitted": sorted(lacking | more),
        }
        return row

    def _followed(
        self, change: Change, key: Sequence[str], old: Texts | None, new: Texts | None
    ) -> tuple[Texts | None, Texts | None, bool]:
        """Complete a change by what the transaction wrote to its row before."""
        whose = id(change.relation)
        before = old or new or {}
        image = self._rows.pop((whose, tuple(before.get(name) for name in key)), None)
        if image is not None:
            self._size -= _length(image)
            old = image
            if new is not None:
                new = {**image, **new} if change.op is Op.UPDATE else new
        if new is not None:
            self._size += _length(new)
            if self._size <= _FOLLOWED:
                self._rows[whose, tuple(new.get(name) for name in key)] = new
        return old, new, image is None


def head_of(begin: Begin, relation: Relation) -> dict[str, Any]:
    """Return what the entry of changes of a table says of transaction and table."""
    return {
        "xid": begin.xid,
        "commit_lsn": str(begin.commit_lsn),
        "committed_at": begin.committed_at.isoformat(),
        "relation": relation.oid,
        "schema": relation.schema,
        "table": relation.name,
    }


def ended(run_id: int, begin: Begin) -> tuple[int, int, str, str]:
    """Return what is recorded of the end of a transaction."""
    return run_id, begin.xid, str(begin.commit_lsn), begin.committed_at.isoformat()


def _key_columns(relation: Relation) -> Sequence[str] | None:
    """Return the key as the WAL has it; None if it does not say which columns are the key."""
    if relation.identity not in _KEYED:
        return None
    return [column.name for column in relation.columns if column.in_key] or None


def texts_of(row: Row | None, types: Mapping[str, int]) -> tuple[Texts | None, set[str]]:
    """Write a row as texts; return it with the columns that are not recorded."""
    if row is None:
        return None, set()
    found, lacking = Texts(), set[str]()
    for name, value in row.items():
        if value is UNCHANGED:
            continue
        text = text_of(value, types.get(name, 0))
        if text is not None and (len(text) > MOST_TEXT or _STRAY.search(text)):
            lacking.add(name)
        elif not _STRAY.search(name):
            found[name] = text
    return found, lacking


def text_of(value: Value, type_oid: int = 0) -> str | None:
    """Write a value as the output function of its type does; None: NULL."""
    match value:
        case None | str():
            return value
        case bool():
            return "t" if value else "f"
        case Decimal():
            return format(value, "f") if value.is_finite() else str(value)
        case float():
            return _float(value, _EXPONENT.get(type_oid, 15))
        case _:
            return str(value)


def _float(value: float, largest: int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    text = repr(value).removesuffix(".0")
    if "e" in text or abs(value) < float(10**largest):
        return text
    sign, digits = ("-", text[1:]) if value < 0 else ("", text)
    power = len(digits.partition(".")[0]) - 1
    digits = digits.replace(".", "").rstrip("0")
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e+{power:02}"


def _length(image: Texts) -> int:
    return sum(len(text) for text in image.values() if text)
