"""What a condition reads of changes, as texts or documents for `store.codecs.decoded_rows`.

A column that the WAL does not contain (UNCHANGED) is taken from the old row if that is complete,
else from the current row.
"""

from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any, cast

from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Change, Relation, Row, Unsent, Value
from walagent.matching.document import json_columns, row_json

# Characters of one value.  A condition sees whole values only; a larger one would cost the reader
# and the server several times its size, and seconds without ingesting.
MAX_EVALUATED = 16 << 20


def needed(attachment: Attachment, relation: Relation) -> Sequence[tuple[str, int]] | None:
    """Return the columns that an evaluation can need, with their type OIDs, 0 if unknown.

    None: all columns of the table, because the relation was not described.
    """
    described = {column.name: column.type_oid for column in relation.columns}
    if attachment.trigger.whole_row:
        return list(described.items()) or None
    names = dict.fromkeys((*attachment.trigger.condition_columns, *attachment.target.key_columns))
    return [(name, described.get(name, 0)) for name in names]


def oversized(attachment: Attachment, change: Change) -> tuple[str, int] | None:
    """Return a value that the condition reads and that exceeds the limit, with its length."""
    for row in (change.new, change.old):
        for name in (
            row if row and attachment.trigger.whole_row else attachment.trigger.condition_columns
        ):
            value = row.get(name) if row else None
            if isinstance(value, str) and len(value) > MAX_EVALUATED:
                return name, len(value)
    return None


def omitted(attachment: Attachment, change: Change) -> Sequence[str]:
    """Return the columns that the condition reads and whose values the WAL omits."""
    new, old = change.new or {}, change.old or {}
    return [
        name
        for name, value in new.items()
        if value is UNCHANGED and name not in old and is_read(attachment, name)
    ]


def is_found_by_key(attachment: Attachment, change: Change) -> bool:
    """Return whether the change has a key by which its row can be looked up."""
    names, new = attachment.target.key_columns, change.new or {}
    return bool(names) and all(new.get(name, UNCHANGED) is not UNCHANGED for name in names)


Texts = tuple[str | None, ...]


def columns(attachments: Iterable[Attachment]) -> Sequence[str]:
    """Return the columns that conditions read; none if one reads whole rows or no column."""
    found = dict[str, None]()
    for each in attachments:
        names = () if each.trigger.whole_row else each.trigger.condition_columns
        if not names:
            return ()
        found.update(dict.fromkeys(names))
    return list(found)


def texts(
    names: Sequence[str], changes: Sequence[Change]
) -> tuple[Sequence[str], list[Texts]] | None:
    """Write columns of changes as text: which sides the changes have, and the values.

    Changes with the same values have the same verdict.  None: there are no columns, or something
    is not there or too large; then the condition takes documents.
    """
    if not names:
        return None
    sides = {"new": [change.new for change in changes], "old": [change.old for change in changes]}
    given = {side: rows for side, rows in sides.items() if any(row is not None for row in rows)}
    found = list[Sequence[str | None]]()
    for rows in given.values():
        for name in names:
            column = _texts([row.get(name) if row else None for row in rows])
            if column is None:
                return None
            found.append(column)
    return (tuple(given), list(zip(*found, strict=True))) if given else None


def _texts(values: Sequence[Value]) -> Sequence[str | None] | None:
    kinds = set(map(type, values))
    if Unsent in kinds:
        return None
    if kinds == {int}:
        return list(map(str, values))
    if not kinds <= {str, NoneType}:
        return [_text(value) for value in values]
    column = cast("Sequence[str | None]", values)
    return None if max(len(value or "") for value in column) > MAX_EVALUATED else column


def _text(value: Value) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def is_read(attachment: Attachment, name: str) -> bool:
    """Return whether the condition reads a column."""
    return attachment.trigger.whole_row or name in attachment.trigger.condition_columns


def rows(attachment: Attachment, changes: Iterable[tuple[int, Change]]) -> list[dict[str, Any]]:
    """Encode numbered changes as the statement's parameter.

    Bytes of a SQL_ASCII database are passed unchanged.
    """
    return [
        {
            "n": n,
            "new": _side(attachment, change.relation, _whole(change)),
            "old": _side(attachment, change.relation, change.old),
            "key": _key(attachment, change),
        }
        for n, change in changes
    ]


def _side(attachment: Attachment, relation: Relation, row: Row | None) -> dict[str, Any] | None:
    """Return the columns of one side that the condition reads."""
    if row is None:
        return None
    kinds = json_columns(attachment, relation)
    if not attachment.trigger.whole_row:
        row = {name: row[name] for name in attachment.trigger.condition_columns if name in row}
    return row_json(row, kinds)


def _whole(change: Change) -> Row | None:
    """Return the new row, with values that the WAL omits taken from a complete old row."""
    if change.new is None:
        return None
    return {
        name: change.old[name]
        if value is UNCHANGED and change.old and name in change.old
        else value
        for name, value in change.new.items()
    }


def _key(attachment: Attachment, change: Change) -> dict[str, Any] | None:
    """Return the key to look up the current row; None if not needed or not possible."""
    if not omitted(attachment, change) or not is_found_by_key(attachment, change):
        return None
    new = change.new or {}
    return row_json({name: new[name] for name in attachment.target.key_columns})
