"""Format items as lines of JSON: the values of a row by column name."""

from decimal import Decimal
from math import isfinite
from typing import Any, cast

import orjson

from walagent.domain.change import UNCHANGED, Begin, Change, Commit, OriginMarker, Row, Value

Json = Any  # accepted by orjson


def format_begin(begin: Begin) -> bytes:
    """Format the start of a transaction."""
    at = begin.committed_at.isoformat()
    lsn = str(begin.commit_lsn)
    return json_line({"op": "begin", "lsn": lsn, "xid": begin.xid, "committed_at": at})


def format_commit(commit: Commit) -> bytes:
    """Format the end of a transaction."""
    lsn, end = str(commit.commit_lsn), str(commit.end_lsn)
    return json_line({"op": "commit", "lsn": lsn, "end_lsn": end})


def format_marker(marker: OriginMarker) -> bytes:
    """Format a logical message."""
    content = marker.content.decode("utf-8", "replace")
    line = {"op": "message", "lsn": str(marker.lsn), "prefix": marker.prefix, "content": content}
    return json_line(line)


def format_change(change: Change) -> bytes:
    """Format a change; `unchanged` names the columns whose values the WAL omits."""
    line: dict[str, Json] = {
        "op": change.op.value,
        "lsn": str(change.commit_lsn),
        "ordinal": change.ordinal,
        "xid": change.xid,
        "schema": change.relation.schema,
        "table": change.relation.name,
    }
    for side, row in (("new", change.new), ("old", change.old)):
        if row is not None:
            line[side] = _values(row)
    if unchanged := [name for name, value in (change.new or {}).items() if value is UNCHANGED]:
        line["unchanged"] = unchanged
    return json_line(line)


def _values(row: Row) -> Json:
    return {name: json_value(value) for name, value in row.items() if value is not UNCHANGED}


def json_value(value: Value) -> Json:
    """Return what JSON represents as *value*; NaN and infinities as PostgreSQL's text."""
    if isinstance(value, Decimal):  # keep the digits, which a double would round
        return orjson.Fragment(format(value, "f")) if value.is_finite() else str(value)
    if isinstance(value, float) and not isfinite(value):
        return str(Decimal(value))
    return value


def json_line(document: Json) -> bytes:
    """Format a document."""
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
            return {_printable(name): _printable(inner) for name, inner in pairs}
        case list():
            return [_printable(inner) for inner in cast("list[Json]", value)]
        case _:
            return value
