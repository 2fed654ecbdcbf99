"""Turn lines of COPY into the messages of a snapshot.

Between their tabs is what JSON has between its quotes, but for a few characters: so the cells of
many lines are put into one template, and few lines are decoded.

Source: PostgreSQL docs, COPY, "Text Format"; RFC 8259, 7.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

import orjson
from psycopg import AsyncConnection

from walagent.sync.messages import row_message
from walagent.sync.shape import Shape
from walagent.sync.snapshot import PORTION, cells_of, copy_lines, select
from walagent.sync.table import ShapeTable

_CONTROLS: Final = bytes({*range(0x20)} - {*b"\t\n"})  # JSON escapes them otherwise than COPY
_TAB: Final = b"\\v"


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
        values = b",".join(_literal(orjson.dumps(name)) + b':"%b"' for name in columns)
        self._template = (
            _literal(start)
            + b'/\\"%b\\"' * len(self._key)
            + b'","value":{%b},"headers":%b}' % (values, _literal(headers))
        )
        self._member = _literal(table.prefix.encode()) + b'/"%b"' * len(self._key)

    def messages(self, lines: bytes) -> bytes:
        """Return the messages of some lines, with commas between them."""
        if not lines.isascii():
            lines.decode()  # JSON is UTF-8
        together = self._filled(lines)
        if together is not None:
            return together
        each = lines.split(b"\n")
        return b",".join([self._filled(line) or self._decoded(line) for line in each])

    def _filled(self, lines: bytes) -> bytes | None:
        """Put the cells of lines into the template; None: some have to be decoded."""
        if _TAB in lines or len(lines.translate(None, _CONTROLS)) < len(lines):
            return None
        width = len(self._names) or 1
        cells = lines.replace(b'"', b'\\"').replace(b"\n", b"\t").split(b"\t")
        keys = [cells[n::width] for n in self._key]
        if any(b"\\" in text or b"/" in text for text in map(b"".join, keys)):
            return None
        count = len(cells) // width
        if self._members is not None:
            members = _fill(self._member, keys, count, b"\0").decode()
            self._members.update(members.split("\0"))
        shown = [cells[n::width] for n in self._shown]
        text = _fill(self._template, [*keys, *shown], count, b",")
        return text.replace(b'"\\N"', b"null")  # within a cell, a backslash is never before N

    def _decoded(self, line: bytes) -> bytes:
        row = dict(zip(self._names, cells_of(line), strict=True))
        key = self._table.key_of(row)
        if self._members is not None:
            self._members.add(key)
        shown = {name: row[name] for name in self._columns}
        return row_message("insert", self._relation, key, shown, {})


def _fill(template: bytes, columns: Sequence[Sequence[bytes]], count: int, between: bytes) -> bytes:
    """Fill a template for each row."""
    cells = [b""] * (count * len(columns))
    for n, column in enumerate(columns):
        cells[n :: len(columns)] = column
    return between.join([template] * count) % tuple(cells)


def _literal(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")


async def write_snapshot(
    conn: AsyncConnection[Any], shape: Shape, check: Callable[[int], None]
) -> None:
    """Read the rows of a shape into the chunks of its snapshot.

    Args:
        check: is called with the bytes so far; what it raises ends the snapshot.
    """
    if shape.definition.changes_only and shape.members is None:
        return
    names = list(dict.fromkeys([*shape.columns, *shape.table.key]))
    writer = SnapshotLines(shape.table, shape.columns, names, shape.members)
    chunk, size, total = list[bytes](), 0, 0
    rows = select(shape.table, names, shape.definition.where)
    # Closed at once, also after an error: the connection is used again.
    async with aclosing(copy_lines(conn, rows, min(PORTION, shape.chunk // 8))) as portions:
        async for lines in portions:
            messages = writer.messages(lines)
            if not shape.definition.changes_only:
                chunk.append(messages)
                size += len(messages)
            check(total + size)
            if size >= shape.chunk:
                shape.snapshot.append(b",".join(chunk))
                shape.wake()
                total += size
                chunk, size = [], 0
            await asyncio.sleep(0)
    if chunk:
        shape.snapshot.append(b",".join(chunk))
