"""Format items as lines of wal2json's format 2, the printed form of a `Change`.

It differs from wal2json: `lsn` of a change is its transaction's commit LSN, which with `ordinal`
identifies it, and a column has no type if pgoutput did not send one.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, cast

import orjson

from walagent.change import (
    UNCHANGED,
    Begin,
    Change,
    Column,
    Commit,
    Op,
    OriginMarker,
    Relation,
    Row,
    Value,
)

Json = Any  # accepted by orjson

_ACTIONS: Final = {Op.INSERT: "I", Op.UPDATE: "U", Op.DELETE: "D", Op.TRUNCATE: "T"}


def format_begin(begin: Begin) -> bytes:
    """Format the start of a transaction."""
    at = begin.committed_at.strftime("%Y-%m-%d %H:%M:%S.%f+00")
    return _line({"action": "B", "xid": begin.xid, "timestamp": at, "lsn": str(begin.commit_lsn)})


def format_commit(commit: Commit) -> bytes:
    """Format the end of a transaction."""
    return _line({"action": "C", "lsn": str(commit.commit_lsn), "nextlsn": str(commit.end_lsn)})


def format_marker(marker: OriginMarker) -> bytes:
    """Format a logical message."""
    content = marker.content.decode("utf-8", "replace")
    line = {"action": "M", "lsn": str(marker.lsn), "transactional": True}
    return _line(line | {"prefix": marker.prefix, "content": content})


def format_change(change: Change) -> bytes:
    """Format a change."""
    relation = change.relation
    line: dict[str, Json] = {
        "action": _ACTIONS[change.op],
        "xid": change.xid,
        "lsn": str(change.commit_lsn),
        "ordinal": change.ordinal,
        "schema": relation.schema,
        "table": relation.name,
    }
    if change.new is not None:
        line["columns"] = _cells(relation, change.new)
    if (identity := _identity(change)) is not None:
        line["identity"] = _cells(relation, identity)
    return _line(line)


def _identity(change: Change) -> Row | None:
    """Return the old side; the new row has it if an update did not change the key."""
    if change.old is not None or change.op is not Op.UPDATE or change.new is None:
        return change.old
    keys = [column.name for column in change.relation.columns if column.in_key]
    return {name: change.new[name] for name in keys if name in change.new} or None


def _cells(relation: Relation, row: Row) -> list[Json]:
    return [_cell(column, row[column.name]) for column in _present(relation.columns, row)]


def _present(columns: Iterable[Column], row: Row) -> Iterable[Column]:
    return (column for column in columns if row.get(column.name, UNCHANGED) is not UNCHANGED)


def _cell(column: Column, value: Value) -> Json:
    if column.type_name == "bytea" and isinstance(value, str):
        value = value.removeprefix("\\x")
    return {"name": column.name, "type": column.type_name, "value": _json(value)}


def _json(value: Value) -> Json:
    if isinstance(value, Decimal):  # keep the digits, which a double would round
        return orjson.Fragment(format(value, "f")) if value.is_finite() else None
    return value


def _line(document: Json) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # bytes of a SQL_ASCII database, which JSON cannot represent
        return orjson.dumps(_printable(document))


def _printable(value: Json) -> Json:
    match value:
        case str():
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        case dict():
            pairs = cast("dict[str, Json]", value).items()
            return {name: _printable(inner) for name, inner in pairs}
        case list():
            return [_printable(inner) for inner in cast("list[Json]", value)]
        case _:
            return value
