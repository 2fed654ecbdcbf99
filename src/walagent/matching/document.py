r"""A change as a run keeps it: JSON that PostgreSQL can read back into a row, and a model can read.

Numbers keep all their digits; what JSON has no form for (NaN, infinity) becomes PostgreSQL's word
for it; text that is too long is cut and said to be; bytes that are no text (in a database whose
encoding is SQL_ASCII) are written as `\xff`, and the column is said to have some.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from walagent import pgtypes
from walagent.attachment import Attachment
from walagent.change import UNCHANGED, Change, Op, Relation, Row, Value

_JSON = {pgtypes.JSON: "json", pgtypes.JSONB: "jsonb"}
_STRAY = re.compile("[\udc80-\udcff]")  # bytes that were no UTF-8, as the decoders keep them

_NULL = r"\N"  # as COPY writes it; a letter that every database has

MAX_TEXT = 256 * 1024  # characters of one value that a run keeps; more goes to no model
MAX_ROW = 1024 * 1024  # characters of one row


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a change a run keeps.

    A row's key, and what tools are given of it, are kept whether the row has room or not: they are
    what it is found by.
    """

    value: int = MAX_TEXT  # characters
    row: int = MAX_ROW


ROOM = Room()


def document(change: Change, attachment: Attachment, room: Room = ROOM) -> dict[str, Any]:
    """Write a change as the JSON of its run, with only the columns that the agent is shown."""
    relation = change.relation
    shown: dict[str, Any] = {
        "op": change.op.value,
        "schema": readable(relation.schema),
        "table": readable(relation.name),
    }
    truncated: dict[str, int] = {}
    # A json column keeps its text: it may hold what jsonb refuses, and a run is kept as jsonb.
    parsed = {n for n, kind in json_columns(attachment, relation).items() if kind == "jsonb"}
    first = attachment.agent.bound.union(attachment.target.key_columns)
    for side, row in (("new", change.new), ("old", change.old)):
        if row is not None:
            visible = _visible(row, attachment)
            shown[side] = _shown_row(visible, truncated, parsed, room, first)
    unchanged = [readable(n) for n, v in (change.new or {}).items() if v is UNCHANGED]
    if unchanged:
        shown["unchanged"] = unchanged
    if truncated:
        shown["truncated"] = truncated
    if stray := sorted(_visible_stray(change, attachment)):
        shown["stray_bytes"] = stray
    return shown


def json_columns(attachment: Attachment, relation: Relation) -> Mapping[str, str]:
    """Say which columns hold json or jsonb: by their type at the change, where that is told.

    A domain's oid tells nothing; what it was made of is known from when the agent was attached.
    """
    kinds = dict(attachment.target.json_columns)
    for column in relation.columns:
        if column.type_oid in _JSON:
            kinds[column.name] = _JSON[column.type_oid]
        elif 0 < column.type_oid < pgtypes.FIRST_OF_USERS:
            kinds.pop(column.name, None)
    return kinds


def row_json(row: Row | None, parsed: Collection[str] = ()) -> dict[str, Any] | None:
    """Write a whole row for PostgreSQL to read back, byte for byte; UNCHANGED columns are left out.

    Args:
        parsed: columns whose text is JSON, and is to be read as such.
    """
    if row is None:
        return None
    return {
        name: _exact(value, is_json=name in parsed)
        for name, value in row.items()
        if value is not UNCHANGED
    }


def _exact(value: Value, *, is_json: bool) -> Value | orjson.Fragment:
    if not isinstance(value, str):
        return _plain(value)
    if is_json:
        return orjson.Fragment(value.encode("utf-8", "surrogateescape"))
    if is_text(value):
        return value
    quoted = json.dumps(value, ensure_ascii=False)  # which minds no stray bytes
    return orjson.Fragment(quoted.encode("utf-8", "surrogateescape"))


def _visible(row: Row, attachment: Attachment) -> Iterable[tuple[str, Value]]:
    if attachment.target.columns is None:
        return row.items()
    keep = attachment.target.columns.union(attachment.target.key_columns, attachment.agent.bound)
    return ((name, value) for name, value in row.items() if name in keep)


def _visible_stray(change: Change, attachment: Attachment) -> set[str]:
    rows = (_visible(row, attachment) for row in (change.new, change.old) if row is not None)
    return {readable(n) for row in rows for n, v in row if isinstance(v, str) and not is_text(v)}


def _shown_row(
    row: Iterable[tuple[str, Value]],
    truncated: dict[str, int],
    parsed: Collection[str],
    room: Room,
    first: Collection[str],
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    left = room.row
    for column, value in row:
        if value is UNCHANGED:
            continue
        name = readable(column)
        if isinstance(value, str):
            most = room.value if column in first else min(room.value, left)
            if len(value) > most:
                truncated[name] = len(value)
                value = value[:most]  # noqa: PLW2901 - the cut value is what is kept
            if column not in first:
                left -= len(value)
            if column in parsed and name not in truncated and is_text(value):
                out[name] = orjson.Fragment(value)
                continue
            value = readable(value)  # noqa: PLW2901 - as above
        out[name] = _plain(value)
    return out


def _plain(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value


def is_text(value: str) -> bool:
    """Whether a value is text, and not also bytes of a database that does not care (SQL_ASCII)."""
    return value.isascii() or _STRAY.search(value) is None


def readable(text: str) -> str:
    r"""Write bytes that are no text as `\xff`; for people and models, not to be read back."""
    if is_text(text):
        return text
    return _STRAY.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def unnamed(change: Change, attachment: Attachment) -> str | None:
    """Find a column whose value a tool is given, and that is no text: it would name another row."""
    for name, value in _given(change, attachment):
        if not is_text(value):
            return readable(name)
    return None


def cut_off(change: Change, attachment: Attachment, room: Room = ROOM) -> tuple[str, int] | None:
    """Find a column whose value a tool is given, and that is longer than what is kept of it."""
    for name, value in _given(change, attachment):
        if len(value) > room.value:
            return readable(name), len(value)
    return None


def _given(change: Change, attachment: Attachment) -> Iterable[tuple[str, str]]:
    """The texts of a row that tools are given: its key, and what their arguments are bound to."""
    row = row_of(change)
    for name in (*attachment.target.key_columns, *sorted(attachment.agent.bound)):
        if isinstance(value := row.get(name), str):
            yield name, value


def row_of(change: Change) -> Row:
    """The side of a change that says which row it is: the old one of a delete, else the new."""
    return (change.old if change.op is Op.DELETE else change.new) or {}


def key_of(row: Row | Mapping[str, Any], attachment: Attachment) -> str | None:
    """The row's primary key as text, for people and for `walagent why`."""
    return joined(row, attachment.target.key_columns)


def ordering_key_of(change: Change, attachment: Attachment) -> str | None:
    """What keeps runs in order: equal ordering keys are worked one at a time.

    An update that changes the key keeps the ordering key of the old one, so it stays behind what
    came before it.
    """
    columns = (
        attachment.target.key_columns
        if attachment.queueing.ordering_key is None
        else attachment.queueing.ordering_key
    )
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
        return _NULL
    if isinstance(value, Decimal) and value.is_finite():
        return format(value.normalize(), "f")
    return readable(str(value)[:1000])
