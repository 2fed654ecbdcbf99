"""The rows that the open transaction has changed, to complete its later changes of them.  No I/O.

The WAL omits an unchanged TOASTed value.  If the same transaction wrote that value before, it is
known, even if the row is deleted or has another key when the condition is evaluated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Change, Op, Relation, Row, Value
from walagent.postgres.pgtypes import FIXED_LENGTH

# A TOASTed value is longer than this, or the row would fit into a page: only such rows are kept.
_SHORT: Final = 500  # characters of a row's text
_MOST: Final = 8 << 20  # characters of all rows; then the database is asked for a value

_Key = tuple[Value, ...]


class RowImages:
    """The rows of one transaction as it left them so far."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._size = 0
        self._rows: dict[int, tuple[Relation, dict[_Key, Row]]] = {}

    def complete(self, changes: Sequence[Change]) -> Mapping[int, Change]:
        """Follow changes of one relation and one operation.

        Returns:
            by ordinal, the changes that omit values, with those values that are known.
        """
        relation = changes[0].relation
        key = [column.name for column in relation.columns if column.in_key]
        known = self._rows.get(id(relation))
        if known is None:  # a changed table has another description
            known = self._rows[id(relation)] = relation, {}
        rows, completed = known[1], dict[int, Change]()
        for change in changes:
            before = change.old or change.new or {}
            image = rows.pop(tuple([before.get(name) for name in key]), None)
            if image is not None:
                self._size -= _length(image)
            new = change.new
            if new is None:
                if change.op is Op.TRUNCATE:
                    self._size -= sum(map(_length, rows.values()))
                    rows.clear()
                continue
            if image is not None and UNCHANGED in new.values():
                new = {n: image.get(n, v) if v is UNCHANGED else v for n, v in new.items()}
                completed[change.ordinal] = replace(change, new=new)
            length = _length(new)
            if length >= _SHORT and key:
                rows[tuple([new[name] for name in key])] = new
                self._size += length
        if self._size > self._most:
            self._rows.clear()
            self._size = 0
        return completed


def _length(row: Row) -> int:
    return sum([len(value) for value in row.values() if isinstance(value, str)])


def may_need_images(relation: Relation, attachments: Iterable[Attachment]) -> bool:
    """Return whether a condition reads a column whose value the WAL can omit."""
    triggers = [
        attachment.trigger
        for attachment in attachments
        if attachment.trigger.condition is not None and Op.UPDATE in attachment.trigger.ops
    ]
    if not triggers or relation.identity == "f":  # then the old row is complete
        return False
    omitted = {column.name for column in relation.columns if column.type_oid not in FIXED_LENGTH}
    return any(
        trigger.whole_row or not omitted.isdisjoint(trigger.condition_columns)
        for trigger in triggers
    )
