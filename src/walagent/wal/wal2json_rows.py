"""Reconstruct table definitions from wal2json's documents, and type the values of rows.

A document has the names, types and values of its own columns only, so the definition of a table is
collected from the documents so far.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from walagent.domain.change import UNCHANGED, Column, Relation, Row, Value
from walagent.postgres.pgtypes import FIXED_LENGTH, SQL_NAMES, type_name

Reader = Callable[[Any], Value]
Cells = Sequence[Mapping[str, Any]]  # [{"name": …, "type": …, "value": …}, …]
_Shape = tuple[tuple[str, str], ...]

_MOST_TABLES: Final = 10_000  # definitions kept
_MOST_PLANS: Final = 256  # of one table: an update can omit any of its TOASTed columns

# A row without a column of these types shows that the column was dropped.  One of another type is
# kept in the definition until the next insert.
_NEVER_OMITTED: Final = frozenset(type_name(oid, -1) for oid in FIXED_LENGTH)


@dataclass(frozen=True, slots=True)
class _RowReader:
    """The parsers for rows with one list of columns."""

    reads: tuple[tuple[str, Reader], ...]
    missing: Row  # the table's columns that such rows omit, as UNCHANGED


@dataclass(slots=True)
class SeenTable:
    """A table as in the last complete row."""

    relation: Relation
    wanted: bool
    plans: dict[_Shape, _RowReader] = field(default_factory=dict[_Shape, _RowReader])


class SeenTables:
    """All tables seen so far.

    Args:
        wanted: called when a table is new or has changed.
    """

    def __init__(self, wanted: Callable[[Relation], bool]) -> None:
        self._wanted = wanted
        self._tables: dict[tuple[str, str], SeenTable] = {}

    def __len__(self) -> int:
        """Return the number of definitions."""
        return len(self._tables)

    def learn(self, relation: Relation) -> None:
        """Register a known definition of a table, which holds until a row contradicts it."""
        table = SeenTable(relation, self._wanted(relation))
        self._remember((relation.schema, relation.name), table)

    def find(self, document: Mapping[str, Any]) -> SeenTable:
        """Return the definition of a change's table at that change."""
        name = document["schema"], document["table"]
        table = self._tables.get(name)
        full = is_full(document)
        cells = (not full and document.get("columns")) or document.get("identity") or ()
        complete = full or document["action"] == "I"
        if table is None or not _fits(table, _shape(cells), complete=complete):
            known = () if table is None else table.relation.columns
            key = document.get("pk") or ()
            columns = _columns(cells, key) if complete else _merged(document, known)
            relation = Relation(0, *name, columns)
            table = self._remember(name, SeenTable(relation, self._wanted(relation)))
        return table

    def _remember(self, name: tuple[str, str], table: SeenTable) -> SeenTable:
        """Store a definition; the one that was stored first makes room for it."""
        self._tables.pop(name, None)
        if len(self._tables) >= _MOST_TABLES:
            del self._tables[next(iter(self._tables))]
        self._tables[name] = table
        return table


def read_row(table: SeenTable, cells: Cells, *, whole: bool = True) -> Row:
    """Convert the values of a row to their types.

    If *whole*, the row has all columns, so missing ones are UNCHANGED.
    """
    shape = _shape(cells)
    if (plan := table.plans.get(shape)) is None:
        if len(table.plans) >= _MOST_PLANS:
            table.plans.clear()
        plan = table.plans[shape] = _plan(table.relation, shape)
    row: dict[str, Value] = {
        name: None if (value := cell["value"]) is None else read(value)
        for (name, read), cell in zip(plan.reads, cells, strict=True)
    }
    if not (whole and plan.missing):
        return row
    return {column.name: row.get(column.name, UNCHANGED) for column in table.relation.columns}


def _fits(table: SeenTable, shape: _Shape, *, complete: bool) -> bool:
    known = [(column.name, column.type_name) for column in table.relation.columns]
    if shape in table.plans or shape == tuple(known):
        return not complete or len(shape) == len(known)
    named = [(name, _sql_name(kind)) for name, kind in shape]
    return named == known or (not complete and set(named) <= set(known))


def _shape(cells: Cells) -> _Shape:
    return tuple([(cell["name"], cell["type"]) for cell in cells])


def is_full(document: Mapping[str, Any]) -> bool:
    """Return whether the old row of an update has all columns: REPLICA IDENTITY FULL.

    The new row can lack TOASTed columns.  An old row with the same columns as the new one can also
    be a key, unless it differs from the primary key.
    """
    columns, identity = document.get("columns") or (), document.get("identity") or ()
    if not columns or len(identity) < len(columns):
        return False
    old = {cell["name"] for cell in identity}
    key = {cell["name"] for cell in document.get("pk") or ()}
    if len(identity) == len(columns) and (not key or old == key):
        return False
    return old.issuperset(cell["name"] for cell in columns)


def _merged(document: Mapping[str, Any], known: Sequence[Column]) -> tuple[Column, ...]:
    """Add what a document shows of a table to what is known.

    An update omits unchanged TOASTed columns, and a delete has only a key: what is known but not
    sent is dropped only if its type is never omitted.
    """
    columns, key = document.get("columns"), document.get("pk") or ()
    cells = columns or document.get("identity") or ()
    sent = {column.name: column for column in _columns(cells, key)}
    kept = {
        column.name: sent.pop(column.name, column)
        for column in known
        if column.name in sent or not columns or column.type_name not in _NEVER_OMITTED
    }
    return (*kept.values(), *sent.values())


def _columns(cells: Cells, key: Cells) -> tuple[Column, ...]:
    names = {cell["name"] for cell in key}
    return tuple(
        Column(
            cell["name"],
            cell.get("typeoid", 0),
            _sql_name(cell["type"]),
            in_key=cell["name"] in names,
        )
        for cell in cells
    )


def _plan(relation: Relation, shape: _Shape) -> _RowReader:
    present = {name for name, _ in shape}
    return _RowReader(
        tuple((name, reader_of(type_name)) for name, type_name in shape),
        {column.name: UNCHANGED for column in relation.columns if column.name not in present},
    )


def reader_of(type_name: str) -> Reader:
    """Return the parser for JSON values of a type, which can also be the values' text."""
    return _READERS.get(_sql_name(type_name).partition("(")[0], _text)


def _sql_name(type_name: str) -> str:
    """Return SQL's name of a type; without typmods, wal2json sends the name in pg_type."""
    return SQL_NAMES.get(type_name, type_name)


def _integer(value: int | str) -> int:
    if isinstance(value, float | bool):
        raise TypeError("not an integer")
    return int(value)


def _boolean(value: bool) -> bool:  # noqa: FBT001 - the value itself
    if value is not True and value is not False:
        raise TypeError("not a boolean")
    return value


def _numeric(value: Decimal | float | str) -> Decimal:
    return Decimal(str(value))  # through its text: 0.1 means 0.1, not the double's expansion


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _bytea(value: str) -> str:
    return "\\x" + _text(value)


_READERS: Final[Mapping[str, Reader]] = {
    "smallint": _integer,
    "integer": _integer,
    "bigint": _integer,
    "oid": _integer,
    "real": float,
    "double precision": float,
    "numeric": _numeric,
    "boolean": _boolean,
    "bytea": _bytea,
}
