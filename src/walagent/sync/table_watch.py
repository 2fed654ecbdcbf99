"""Notice what changes in a table beside its rows: the stream does not say it."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from psycopg import Error

from walagent.errors import WalagentError
from walagent.replication.sinks import Table
from walagent.sync.checks import ShapeRefusedError
from walagent.sync.pool import OpenRows, RowPool
from walagent.sync.publishing import Publishing
from walagent.sync.query_shapes import QueryShapes
from walagent.sync.select_shapes import SelectShape
from walagent.sync.shape import Shape
from walagent.sync.shape_index import ShapeIndex
from walagent.sync.table import read_marks

_LOOK: Final = 2.0  # seconds between two looks
_SHARE: Final = 20  # looks take one part in so many of the time, however many tables there are


class TableWatch:
    """Ends the shapes of tables that are not what they were, and withdraws tables without shapes.

    Args:
        rows, own: connections of the login that reads open tables, and of the process's own.
        drop: ends a shape.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what is watched, through what, and what ends it
        self,
        shapes: ShapeIndex,
        queries: QueryShapes,
        publishing: Publishing,
        rows: OpenRows,
        own: RowPool,
        drop: Callable[[Shape], None],
    ) -> None:
        self._shapes = shapes
        self._queries = queries
        self._publishing = publishing
        self._rows = rows
        self._own = own
        self._drop = drop
        self._read: dict[Table, str] = {}  # marks of tables that queries read

    async def run(self) -> None:
        """Look every other second, or less often if a look takes long; does not end."""
        while True:
            started = time.monotonic()
            used = self._queries.tables | {s.table.relation for s in self._shapes}
            self._publishing.withdraw_unused(used)
            with suppress(WalagentError, Error, ShapeRefusedError):  # later, then
                await self.look()
            await asyncio.sleep(max(_LOOK, _SHARE * (time.monotonic() - started)))

    async def look(self) -> None:
        """Compare the tables with what they were when they were read."""
        shapes = [shape for shape in self._shapes if shape.mark]
        selects = [shape for shape in self._queries if isinstance(shape, SelectShape)]
        if shapes or selects:
            wanted = {s.table.relation for s in shapes}.union(*(s.marks for s in selects))
            async with self._rows.connection() as conn:
                now = await read_marks(conn, wanted)
            for shape in shapes:
                if now.get(shape.table.relation) != shape.mark:
                    self._drop(shape)
            for shape in selects:
                if any(now.get(table) != mark for table, mark in shape.marks.items()):
                    self._queries.drop(shape)
        tables = self._queries.tables
        if tables:
            async with self._own.connection() as conn:
                now = await read_marks(conn, tables)
            known = self._read
            self._queries.drop_tables(t for t in tables if t in known and now.get(t) != known[t])
            self._read = {table: now[table] for table in tables if table in now}
