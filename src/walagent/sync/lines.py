"""Turn lines of COPY into the messages of a snapshot.

Most lines need no decoding: between their tabs is what JSON has between its quotes.
"""

import re
from collections.abc import Sequence
from typing import Final

import orjson

from walagent.sync.messages import row_message
from walagent.sync.snapshot import cells_of
from walagent.sync.table import ShapeTable

_NULL: Final = b"\\N"
_SPECIAL: Final = re.compile(rb'["\x00-\x08\x0b-\x1f]')  # what JSON escapes, but for backslashes


class SnapshotLines:
    """Writes the messages of a shape's snapshot.

    Args:
        columns: those of the shape.
        names: those of the lines: the shape's and those of the key.
        members: receives the keys; None: they are not needed.
    """

    def __init__(
        self,
        table: ShapeTable,
        columns: Sequence[str],
        names: Sequence[str],
        members: set[str] | None,
    ) -> None:
        self._table = table
        self._columns = columns
        self._names = names
        self._members = members
        self._relation = (table.schema, table.name)
        self._key = [names.index(name) for name in table.key]
        self._shown = [names.index(name) for name in columns]
        headers = orjson.dumps({"operation": "insert", "relation": self._relation})
        start = b'{"key":"' + orjson.dumps(table.prefix)[1:-1]
        values = b",".join(_literal(orjson.dumps(name)) + b":%b" for name in columns)
        self._template = (
            _literal(start)
            + b'/\\"%b\\"' * len(self._key)
            + b'","value":{%b},"headers":%b}' % (values, _literal(headers))
        )

    def messages(self, lines: bytes) -> list[bytes]:
        """Return the messages of some lines."""
        if not lines.isascii():
            lines.decode()  # JSON is UTF-8
        if _SPECIAL.search(lines) is None:
            return [self._plain(line) for line in lines.split(b"\n")]
        return [
            self._decoded(line) if _SPECIAL.search(line) else self._plain(line)
            for line in lines.split(b"\n")
        ]

    def _plain(self, line: bytes) -> bytes:
        cells = line.split(b"\t")
        if b"\\" in line and line.count(b"\\") != cells.count(_NULL):
            return self._decoded(line)
        key = [cells[n] for n in self._key]
        if any(b"/" in each or each == _NULL for each in key):
            return self._decoded(line)
        if self._members is not None:
            parts = "".join(f'/"{each.decode()}"' for each in key)
            self._members.add(self._table.prefix + parts)
        values = [b"null" if cells[n] == _NULL else b'"%b"' % cells[n] for n in self._shown]
        return self._template % (*key, *values)

    def _decoded(self, line: bytes) -> bytes:
        row = dict(zip(self._names, cells_of(line), strict=True))
        key = self._table.key_of(row)
        if self._members is not None:
            self._members.add(key)
        shown = {name: row[name] for name in self._columns}
        return row_message("insert", self._relation, key, shown, {})


def _literal(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")
