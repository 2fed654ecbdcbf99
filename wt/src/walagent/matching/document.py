"""A change as a run keeps it: JSON that PostgreSQL can read back into a row, and a model can read.

Numbers keep all their digits; what JSON has no form for (NaN, infinity) becomes PostgreSQL's word
for it; text that is too long is cut and said to be.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any

import orjson

from walagent.attachment import Attachment
from walagent.change import UNCHANGED, Change, Op, Row, Value

MAX_TEXT = 256 * 1024  # characters of one column that a run keeps; more goes to no model
MAX_ROW = 1024 * 1024  # characters of one row


def document(change: Change, attachment: Attachment) -> dict[str, Any]:
    """Write a change as the JSON of its run, with only the columns that the agent is shown."""
    shown: dict[str, Any] = {
        "op": change.op.value,
        "schema": change.relation.schema,
        "table": change.relation.name,
    }
    truncated: dict[str, int] = {}
    # A json column keeps its text: it may hold what jsonb refuses, and a run is kept as jsonb.
    parsed = {name for name, kind in attachment.json_columns.items() if kind == "jsonb"}
    for side, row in (("new", change.new), ("old", change.old)):
        if row is not None:
            shown[side] = _row(_visible(row, attachment), truncated, parsed)
    unchanged = [n for n, v in (change.new or {}).items() if v is UNCHANGED]
    if unchanged:
        shown["unchanged"] = unchanged
    if truncated:
        shown["truncated"] = truncated
    return shown


def row_json(row: Row | None, parsed: Collection[str] = ()) -> dict[str, Any] | None:
    """Write a whole row for PostgreSQL to read back; UNCHANGED columns are left out.

    Args:
        parsed: columns whose text is JSON, and is to be read as such.
    """
    return None if row is None else _row(row.items(), {}, parsed, limit=None)


def _visible(row: Row, attachment: Attachment) -> Iterable[tuple[str, Value]]:
    if attachment.columns is None:
        return row.items()
    keep = attachment.columns.union(attachment.key_columns, _bound(attachment))
    return ((name, value) for name, value in row.items() if name in keep)


def _bound(attachment: Attachment) -> Iterable[str]:
    return (column for tool in attachment.tools for column in tool.bind.values())


def _row(
    row: Iterable[tuple[str, Value]],
    truncated: dict[str, int],
    parsed: Collection[str],
    limit: int | None = MAX_TEXT,
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    room = MAX_ROW
    for name, value in row:
        if value is UNCHANGED:
            continue
        if isinstance(value, str):
            most = None if limit is None else min(limit, room)
            if most is not None and len(value) > most:
                truncated[name] = len(value)
                value = value[:most]  # noqa: PLW2901 - the cut value is what is kept
            room -= len(value)
            if name in parsed and name not in truncated:
                out[name] = orjson.Fragment(value)
                continue
        out[name] = _plain(value)
    return out


def _plain(value: Value) -> Value:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
        case str() if not value.isascii() and _has_surrogates(value):
            return value.encode("utf-8", "replace").decode()  # bytes of a SQL_ASCII database
        case _:
            return value


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def row_of(change: Change) -> Row:
    """The side of a change that says which row it is: the old one of a delete, else the new."""
    return (change.old if change.op is Op.DELETE else change.new) or {}


def key_of(row: Row | Mapping[str, Any], attachment: Attachment) -> str | None:
    """The row's primary key as text, for people and for `walagent why`."""
    return joined(row, attachment.key_columns)


def lane_of(change: Change, attachment: Attachment) -> str | None:
    """What keeps runs in order: equal lanes are worked one at a time.

    An update that changes the key keeps the lane of the old one, so it stays behind what came
    before it.
    """
    columns = attachment.key_columns if attachment.lane_key is None else attachment.lane_key
    row = row_of(change)
    if change.op is Op.UPDATE and change.old and all(name in change.old for name in columns):
        row = change.old
    return joined(row, columns)


def joined(row: Row | Mapping[str, Any], columns: Iterable[str]) -> str | None:
    """Join values to one text that differs when any of them does; None without columns."""
    values = [row.get(name) for name in columns]
    if not values:
        return None
    if len(values) == 1:
        return _word(values[0])
    return ",".join(_word(value).replace("\\", "\\\\").replace(",", "\\,") for value in values)


def _word(value: object) -> str:
    if value is None or value is UNCHANGED:
        return "∅"
    if isinstance(value, Decimal) and value.is_finite():
        return format(value.normalize(), "f")
    return str(value)[:1000]
