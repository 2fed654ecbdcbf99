"""The shapes of tables of a process: by definition, by table, and those that are alike."""

from collections.abc import Container, Iterator

from walagent.replication.sinks import Table
from walagent.sync.definition import Definition
from walagent.sync.shape import Shape
from walagent.sync.table import ShapeTable


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
                has_where = shape.members is not None
                kind = (shape.is_evaluated_by_postgresql, has_where, id(shape.table))
                alike.setdefault(kind, []).append(shape)
        found = self._alike[name] = [alike[kind] for kind in sorted(alike)]
        return found
