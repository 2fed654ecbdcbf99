"""Shapes of open tables whose where clause has sub-selects.

Which rows they have depends on other tables, too.  So PostgreSQL decides: after a change of one of
the tables, the rows are read again, in one snapshot, and clients receive the difference.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base.concurrency import Breath
from walagent.postgres.quoting import quote_name
from walagent.replication.sinks import Table
from walagent.sync.checks import check_definition, invalid
from walagent.sync.definition import Definition
from walagent.sync.expression import selects_of
from walagent.sync.limits import EngineLimits
from walagent.sync.lines import SnapshotLines
from walagent.sync.pool import OpenRows
from walagent.sync.query import ComparedShape, Found, Rows, snapshot_end_of
from walagent.sync.snapshot import Visible, cells_of, copy_lines, read_snapshot, reading, select
from walagent.sync.table import Marks, ShapeTable, read_marks, schema_header

_AT_ONCE: Final = 3  # that are read; the other connections are for shapes without sub-selects
_PORTION: Final = 1 << 16  # bytes
_LINES: Final = 500
_ROW: Final = 200  # bytes that a row takes beside its text, about
_LIMIT: Final = "set local statement_timeout = '20s'"


def tables_of(definition: Definition) -> frozenset[Table]:
    """Return the tables that a shape reads: its own, and those of sub-selects."""
    others = {(each.schema, each.table) for each in selects_of(definition.where)}
    return frozenset({(definition.schema, definition.table), *others})


def has_selects(definition: Definition) -> bool:
    """Return whether the where clause of a shape has sub-selects."""
    return next(selects_of(definition.where), None) is not None


@dataclass(frozen=True)
class FoundLines(Found[bytes, bytes]):
    """The rows of a shape in one snapshot, as COPY writes them: the columns of the key first.

    Args:
        marks: of all tables.
        size: bytes that they take, about.
    """

    table: ShapeTable
    marks: Marks
    size: int


class SelectShape(ComparedShape[bytes, bytes]):
    """The rows that a where clause with sub-selects finds."""

    def __init__(self, definition: Definition, found: FoundLines, limits: EngineLimits) -> None:
        self.definition = definition
        self.table = table = found.table
        self.columns = definition.columns or tuple(column.name for column in table.columns)
        self.marks = found.marks
        self._chunk = limits.chunk_bytes
        self._lines = found.size
        self._names = names = _names(table, definition)
        shown = Rows(
            schema_header(table, self.columns),
            table.relation,
            table.key,
            is_full=definition.replica == "full",
        )
        texts = partial(_texts, names, frozenset(self.columns))
        super().__init__(shown, found.rows, (partial(_key, table), texts), limits)

    async def write_snapshot(self, visible: Visible) -> None:
        """Write the first rows, before any client has the shape."""
        writer, breath = SnapshotLines(self.table, self.columns, self._names, None), Breath()
        chunk, size = list[bytes](), 0
        rows = () if self.definition.changes_only else self._rows.values()
        lines = iter(rows)
        while some := [*islice(lines, _LINES)]:
            chunk.append(writer.messages(b"\n".join(some)))
            size += len(chunk[-1])
            if size >= self._chunk:
                self.snapshot.append(b",".join(chunk))
                chunk, size = [], 0
            await breath.if_due()
        self.snapshot.append(b",".join([*chunk, snapshot_end_of(visible)]))

    @property
    def size(self) -> int:
        """Return the bytes of its snapshot, its log, and the rows to compare with."""
        return super().size + self._lines

    async def compare(self, found: Found[bytes, bytes], position: int) -> None:
        """Append the difference; end if one of the tables is not what it was."""
        assert isinstance(found, FoundLines)  # noqa: S101 - what OpenSelects reads
        if found.marks != self.marks:
            self.finish()
            return
        await super().compare(found, position)
        self._lines = found.size

    def finish(self) -> None:
        """End it, and free the rows."""
        self._rows = dict[bytes, bytes]()
        super().finish()


class OpenSelects:
    """Reads such shapes, as the login that reads open tables."""

    def __init__(self, rows: OpenRows, limits: EngineLimits) -> None:
        self._rows = rows
        self._most = limits.compared_bytes
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def tables(self, definition: Definition) -> Collection[Table]:
        """Return the tables that a shape reads.

        Raises:
            ShapeRefusedError: the login may not read one, or no stream can carry its changes.
        """
        tables = tables_of(definition)
        for schema, name in sorted(tables):
            await self._rows.let_read(schema, name)
        async with self._rows.connection() as conn, reading(conn):
            await check_definition(conn, definition)
        return tables

    async def read(self, definition: Definition) -> FoundLines:
        """Read the rows.

        Raises:
            ShapeRefusedError: as `tables`, or there are too many.
        """
        tables = tables_of(definition)
        async with self._slots, self._rows.connection() as conn, reading(conn):
            await conn.execute(_LIMIT)
            # The locks first: a snapshot that is older than a change of a table misses rows.
            for schema, name in sorted(tables):
                table = f"{quote_name(schema)}.{quote_name(name)}"
                await conn.execute(f"lock table {table} in access share mode".encode())
            visible = await read_snapshot(conn)
            marks = await read_marks(conn, tables)
            table = await check_definition(conn, definition)
            rows, size = await self._lines(conn, table, definition)
        return FoundLines(visible, {}, rows, table, marks, size)

    async def _lines(
        self, conn: AsyncConnection[Any], table: ShapeTable, definition: Definition
    ) -> tuple[Mapping[bytes, bytes], int]:
        names, width = _names(table, definition), len(table.key)
        rows, size, breath = dict[bytes, bytes](), 0, Breath()
        query = select(table, names, definition.where)
        async with aclosing(copy_lines(conn, query, _PORTION)) as portions:
            async for lines in portions:
                found = lines.split(b"\n")
                rows |= {b"\t".join(line.split(b"\t", width)[:width]): line for line in found}
                size += len(lines) + _ROW * len(found)
                if size > self._most:
                    text = f"finds more than {self._most} bytes, the most with a sub-select"
                    raise invalid("where", text)
                await breath.if_due()
        return rows, size


def _names(table: ShapeTable, definition: Definition) -> list[str]:
    shown = definition.columns or [column.name for column in table.columns]
    return list(dict.fromkeys([*table.key, *shown]))


def _key(table: ShapeTable, cells: bytes) -> str:
    return table.key_of(dict(zip(table.key, cells_of(cells), strict=True)))


def _texts(names: list[str], shown: frozenset[str], line: bytes) -> dict[str, str | None]:
    cells = zip(names, cells_of(line), strict=True)
    return {name: text for name, text in cells if name in shown}
