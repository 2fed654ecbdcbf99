"""The shapes of tables of a process, those that are alike, and the room that all have."""

import time
from collections.abc import Callable, Container, Iterator
from typing import Final

from walagent.replication.sinks import Table
from walagent.sync.checks import ShapeRefusedError
from walagent.sync.definition import Definition
from walagent.sync.limits import EngineLimits
from walagent.sync.query_shapes import QueryShapes
from walagent.sync.shape import Shape
from walagent.sync.table import ShapeTable

_MEASURED: Final = 1.0  # seconds for which the size of all shapes is not added up again


class ShapeIndex:
    """Finds shapes; it holds those that have not ended."""

    def __init__(self) -> None:
        self._shapes: dict[Definition, Shape] = {}
        self._by_table: dict[Table, dict[Shape, None]] = {}
        self._alike: dict[Table, list[list[Shape]]] = {}  # those that follow the stream; a cache

    def __len__(self) -> int:
        """Return the number of shapes."""
        return len(self._shapes)

    def __iter__(self) -> Iterator[Shape]:
        """Iterate over the shapes; some can be removed meanwhile."""
        return iter(list(self._shapes.values()))

    def find(self, what: Definition | str) -> Shape | None:
        """Return the shape of a definition, or with a handle, if there is one."""
        if isinstance(what, str):
            return next((shape for shape in self._shapes.values() if shape.handle == what), None)
        return self._shapes.get(what)

    def has(self, name: Table) -> bool:
        """Whether a table has shapes."""
        return name in self._by_table

    def of(self, name: Table) -> list[Shape]:
        """Return the shapes of a table."""
        return list(self._by_table.get(name, ()))

    def known(self, table: ShapeTable) -> ShapeTable:
        """Return the one object for an equal table: by it, shapes that are alike are found."""
        name = (table.schema, table.name)
        return next((s.table for s in self._by_table.get(name, ()) if s.table == table), table)

    def add(self, shape: Shape) -> None:
        """Add a shape, which does not follow the stream yet."""
        self._shapes[shape.definition] = shape
        self._by_table.setdefault(shape.table.relation, {})[shape] = None

    def remove(self, shape: Shape) -> None:
        """Remove a shape, which might have been removed before."""
        if self._shapes.get(shape.definition) is shape:
            del self._shapes[shape.definition]
        table = shape.table.relation
        self._alike.pop(table, None)
        if shape in self._by_table.get(table, ()):
            del self._by_table[table][shape]
            if not self._by_table[table]:
                del self._by_table[table]

    def follows(self, shape: Shape) -> None:
        """Group the shapes of a table again: this one follows the stream from now on."""
        self._alike.pop(shape.table.relation, None)

    def groups(self, name: Table, starting: Container[Shape]) -> list[list[Shape]]:
        """Return the shapes of a table that follow the stream, in groups that are alike.

        Those last that PostgreSQL evaluates.

        Args:
            starting: the shapes that do not follow it yet.
        """
        if (groups := self._alike.get(name)) is not None:
            return groups
        alike: dict[tuple[bool, bool, int], list[Shape]] = {}
        for shape in self._by_table.get(name, ()):
            if shape not in starting:
                has_where = shape.definition.where is not None
                kind = (shape.is_evaluated_by_postgresql, has_where, id(shape.table))
                alike.setdefault(kind, []).append(shape)
        found = self._alike[name] = [alike[kind] for kind in sorted(alike)]
        return found


class ShapeRoom:
    """How much room shapes have: their number, and the bytes of their snapshots and logs.

    Args:
        drop: ends a shape of a table.
    """

    def __init__(
        self,
        shapes: ShapeIndex,
        queries: QueryShapes,
        limits: EngineLimits,
        drop: Callable[[Shape], None],
    ) -> None:
        self._shapes = shapes
        self._queries = queries
        self._limits = limits
        self._drop = drop
        self._bytes = 0  # as of the last measurement
        self._measured_at = 0.0
        self.is_measured = False

    def make(self) -> None:
        """Make room for the bytes of another shape.

        Raises:
            ShapeRefusedError: there is none.
        """
        now = time.monotonic()
        for shape in [s for s in self._shapes if now - s.used_at > self._limits.idle]:
            self._drop(shape)
        if not self.is_measured or now - self._measured_at > _MEASURED:
            self.measure()
        if not self.has():
            raise ShapeRefusedError(503, "the shapes use sync.max_memory already; try again")

    def make_for_table(self) -> None:
        """Make room for a shape of a table.

        Raises:
            ShapeRefusedError: there are too many.
        """
        if len(self._shapes) < self._limits.shapes:
            return
        oldest = min(self._shapes, key=lambda shape: shape.used_at)
        if oldest.is_asked_for:
            text = f"there are {self._limits.shapes} shapes of tables already; try again"
            raise ShapeRefusedError(503, text)
        self._drop(oldest)

    def has(self, more: int = 0) -> bool:
        """Return whether shapes may take more bytes; those that no client requests end for them."""
        most = self._limits.total_bytes - more
        if self._bytes < most:
            return True
        for shape in sorted([*self._shapes, *self._queries], key=lambda s: s.used_at):
            if shape.is_asked_for or self._bytes < most:
                break
            self._bytes -= shape.size
            if isinstance(shape, Shape):
                self._drop(shape)
            else:
                self._queries.drop(shape)
        return self._bytes < most

    def measure(self) -> None:
        """Add up what snapshots and logs use."""
        self._measured_at, self.is_measured = time.monotonic(), True
        self._bytes = sum(shape.size for shape in (*self._shapes, *self._queries))
