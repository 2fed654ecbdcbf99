"""Format items as lines of wal2json's format 2, the printed form of a `Change`.

It differs from wal2json: `lsn` of a change is its transaction's commit LSN, which with `ordinal`
identifies it, NaN and infinities are texts if the plugin sent them, and a column has no type if
pgoutput did not send one.
"""

from collections.abc import Iterable
from typing import Any, Final

from walagent.domain.change import (
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
from walagent.wal.json_lines import json_line, json_value

Json = Any  # accepted by orjson

_ACTIONS: Final = {Op.INSERT: "I", Op.UPDATE: "U", Op.DELETE: "D", Op.TRUNCATE: "T"}


def format_begin(begin: Begin) -> bytes:
    """Format the start of a transaction."""
    at = begin.committed_at.strftime("%Y-%m-%d %H:%M:%S.%f+00")
    return json_line(
        {"action": "B", "xid": begin.xid, "timestamp": at, "lsn": str(begin.commit_lsn)}
    )


def format_commit(commit: Commit) -> bytes:
    """Format the end of a transaction."""
    return json_line({"action": "C", "lsn": str(commit.commit_lsn), "nextlsn": str(commit.end_lsn)})


def format_marker(marker: OriginMarker) -> bytes:
    """Format a logical message."""
    content = marker.content.decode("utf-8", "replace")
    line = {"action": "M", "lsn": str(marker.lsn), "transactional": True}
    return json_line(line | {"prefix": marker.prefix, "content": content})


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
    return json_line(line)


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
    return {"name": column.name, "type": column.type_name, "value": json_value(value)}
