"""Find changes, by others, of rows that agents wrote lately.  No I/O.

What passes here is looked up in PostgreSQL, by key (agent_internal.take_corrections).  So this may
let more pass, and leaves out nothing that can be a correction.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from walagent.domain.attachment import Attachment
from walagent.domain.change import Begin, Change, Op, Relation, Row
from walagent.matching.row_changes import Texts, head_of, text_of, texts_of
from walagent.postgres import pgtypes

_SLOTS: Final = 64  # of one byte, at least, for each row: few other rows pass, too
_FIRST: Final = 1 << 12
_GROWTH: Final = 16
# Types of values that str() writes in another way than PostgreSQL.
_WRITTEN_OTHERWISE: Final = frozenset(
    {pgtypes.BOOL, pgtypes.FLOAT4, pgtypes.FLOAT8, pgtypes.NUMERIC}
)
_MOST: Final = 1 << 24  # bytes for a table; of many more than 262,144 rows, more others pass


@dataclass(slots=True)
class _Rows:
    """The keys of rows, by their hashes alone."""

    slots: bytearray = field(default_factory=lambda: bytearray(_FIRST))
    count: int = 0

    def add(self, key: object) -> None:
        """Add a key."""
        if self.count * _SLOTS >= len(self.slots) < _MOST:
            # A hash keeps its lower bits, so each slot is found in one of its copies.
            self.slots *= _GROWTH
        self.slots[hash(key) & (len(self.slots) - 1)] = 1
        self.count += 1

    def has(self, key: object) -> bool:
        """Whether it can have been added."""
        return bool(self.slots[hash(key) & (len(self.slots) - 1)])


@dataclass(slots=True)
class Watched:
    """The rows and columns of a table that agents wrote lately.

    Args:
        key: the columns that identify a row, as agent.row_change has them.
    """

    key: Sequence[str]
    columns: set[str] = field(default_factory=set[str])
    _rows: _Rows = field(default_factory=_Rows)
    _described: Relation | None = None
    _types: Mapping[str, int] = field(default_factory=dict[str, int])
    _is_plain: bool = False

    def add(self, key: Mapping[str, str | None]) -> None:
        """Watch a row, given the texts of its key."""
        self._rows.add(_hashed([key.get(name) for name in self.key]))

    def take(self, changes: Sequence[Change]) -> list[dict[str, Any]]:
        """Return what changes of one operation did to rows that agents can have written."""
        if (relation := changes[0].relation) is not self._described:
            self._described = relation
            self._types = {column.name: column.type_oid for column in relation.columns}
            self._is_plain = (
                len(self.key) == 1
                and self._types.get(self.key[0], 0) not in _WRITTEN_OTHERWISE
                and relation.identity != "i"
            )
        types = self._types
        if not self._is_plain or any(
            each.old is not None and self._moves(each) for each in changes
        ):
            # As they are looked at: a key that a row has been given passes from then on.
            rows = self._rows
            passing = (each for each in changes if rows.has(self._hashed(_before(each), types)))
        else:
            slots, mask = self._rows.slots, len(self._rows.slots) - 1
            name = self.key[0]  # in one comprehension: it is what all other changes cost
            passing = [
                change
                for change in changes
                if slots[hash(str((change.old or change.new or {}).get(name))) & mask]
            ]
            if not passing:
                return []
        return [row for change in passing if (row := self._row(change, types)) is not None]

    def _moves(self, change: Change) -> bool:
        old, new = change.old or {}, change.new or {}
        return any(name in new and old.get(name) != new[name] for name in self.key)

    def _hashed(self, image: Row, types: Mapping[str, int]) -> object:
        return _hashed([text_of(image.get(name), types.get(name, 0)) for name in self.key])

    def _row(self, change: Change, types: Mapping[str, int]) -> dict[str, Any] | None:
        new, lacking = texts_of(change.new, types)
        before = new if change.old is None else texts_of(_before(change), types)[0]
        was = self._key_in(before)
        if was is None or change.op is Op.TRUNCATE:
            return None
        row: dict[str, Any] = {"n": change.ordinal, "op": change.op.value, "key": was}
        if new is None or before is None:
            return row
        is_whole = change.old is not None and change.relation.identity == "f"
        values = {
            name: text
            for name, text in new.items()
            if name in self.columns and not (is_whole and before.get(name) == text)
        }
        omitted = sorted(lacking & self.columns)
        key = self._key_in({**before, **new})
        if key is not None and key != was:
            self.add(key)
            row |= {"key": key, "was": was}
        elif not values and not omitted:
            return None
        return row | {"values": values, "omitted": omitted}

    def _key_in(self, image: Texts | None) -> Texts | None:
        if image is None or not all(name in image for name in self.key):
            return None
        return {name: image[name] for name in self.key}


@dataclass(slots=True)
class Corrected:
    """What one transaction did to rows that agents can have written, by table."""

    begin: Begin
    _rows: dict[int, tuple[Relation, list[dict[str, Any]]]] = field(
        default_factory=dict["int", "tuple[Relation, list[dict[str, Any]]]"]
    )

    def add(self, relation: Relation, rows: Sequence[dict[str, Any]]) -> None:
        """Add what `Watched.take` has returned."""
        if rows:
            self._rows.setdefault(id(relation), (relation, []))[1].extend(rows)

    def cut(self, author: str | None = None) -> list[dict[str, Any]]:
        """Return the entries of what was added so far, and forget it.

        Args:
            author: who has signed the transaction; None: nobody.
        """
        found = [
            {**head_of(self.begin, relation), "by": author, "rows": _by_first_keys(rows)}
            for relation, rows in self._rows.values()
        ]
        self._rows.clear()
        return found


def _by_first_keys(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one change for each row: what is there after all of them.

    It has the key before them as `was`, if that is another one.  A row that was inserted with the
    key of one that has moved on is left out: no agent wrote it.
    """
    found: dict[str, dict[str, Any]] = {}  # by the key before all of them
    first: dict[str, Texts] = {}  # by the key that a row has now
    left = set[str]()  # keys
    for row in rows:
        before: Texts = row.get("was", row["key"])
        name = str(before)
        if name in left and name not in first:
            continue
        was = first.pop(name, before)
        if row["key"] != before:
            left.add(name)
        if row["op"] != Op.DELETE.value:
            first[str(row["key"])] = was
        merged = _merged(found.get(str(was)), row)
        found[str(was)] = merged | {"was": was} if was != row["key"] else merged
    return list(found.values())


def _merged(before: dict[str, Any] | None, row: dict[str, Any]) -> dict[str, Any]:
    """Return what a later change leaves of a row; with an update, it is what either has set."""
    if before is None or row["op"] != Op.UPDATE.value:
        return row
    values = {**before.get("values", {}), **row["values"]}  # planted: last-change-alone
    values = {name: text for name, text in values.items() if name not in row["omitted"]}
    omitted = {*before.get("omitted", ()), *row["omitted"]} - row["values"].keys()
    return row | {"values": values, "omitted": sorted(omitted)}


def _before(change: Change) -> Row:
    """Return the row before a change, as far as it is known: the old one can be a part of it."""
    if change.old is None or change.new is None:
        return change.old or change.new or {}
    return {**change.new, **change.old}


def _hashed(key: Sequence[object]) -> object:
    return str(key[0]) if len(key) == 1 else tuple(map(str, key))


class Corrections:
    """The tables that agents wrote lately, by their names in the WAL."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], Watched] = {}

    def know(
        self, schema: str, table: str, key: Mapping[str, str | None], columns: Iterable[str]
    ) -> None:
        """Watch columns of a row that an agent wrote before."""
        names = tuple(sorted(key))
        watched = self._tables.setdefault((schema, table), Watched(names))
        if watched.key == names:
            watched.add(key)
            watched.columns.update(columns)

    def of(self, relation: Relation) -> Watched | None:
        """Return what is watched of a table."""
        return self._tables.get((relation.schema, relation.name))

    def wrote(
        self, relation: Relation, entry: Mapping[str, Any], attachments: Iterable[Attachment]
    ) -> None:
        """Watch what a transaction of a run has written.

        Args:
            entry: of `Recording.take`.
            attachments: of the table; update_row writes no other.
        """
        attachments = [each for each in attachments if each.target.writes]
        if not attachments:
            return
        name = (relation.schema, relation.name)
        key = tuple(sorted(entry["key"] or attachments[0].target.key_columns))
        watched = self._tables.get(name)
        if watched is None or watched.key != key:
            # With another key, rows that were watched by the one before are not found any more.
            watched = self._tables[name] = Watched(key)
        watched.columns.update(*(each.target.writes for each in attachments))
        for row in entry["rows"]:
            if row["op"] == Op.UPDATE.value:
                watched.add(row["new"])
