"""Rows as PostgreSQL printed them: exact, whatever the type, and loaded when values are wanted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from psycopg.adapt import Transformer
from psycopg.pq import Format

from walagent.message import Json

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, and its type in PostgreSQL."""

    name: str
    type_oid: int


@dataclass(frozen=True)
class Rows:
    """What a statement gave.

    Args:
        texts: one tuple a row, one text a column; None is NULL.
        cut: what was left out, in words; empty when everything is here.
    """

    columns: Sequence[Column]
    texts: Sequence[Texts] = ()
    cut: Sequence[str] = ()

    @cached_property
    def values(self) -> Sequence[tuple[Any, ...]]:
        """The rows as Python's own types; a text where Python's type lacks the value.

        Infinite dates and those before Christ are such, and values that were cut.
        """
        types = Transformer(None)
        loaders = [types.get_loader(each.type_oid, Format.TEXT).load for each in self.columns]

        def loaded(n: int, text: str | None) -> Any:  # noqa: ANN401 - of any type
            try:
                return None if text is None else loaders[n](text.encode())
            except Exception:  # noqa: BLE001 - see above
                return text

        return [tuple(loaded(n, text) for n, text in enumerate(row)) for row in self.texts]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows' values."""
        return iter(self.values)

    def __len__(self) -> int:
        """Count the rows that are here."""
        return len(self.texts)

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns; they may repeat."""
        return [column.name for column in self.columns]

    def to_json(self) -> dict[str, Json]:
        """Write them as JSON, losing nothing."""
        return {
            "columns": [[column.name, column.type_oid] for column in self.columns],
            "rows": [list(row) for row in self.texts],
            "cut": list(self.cut),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> "Rows":
        """Read what `to_json` wrote."""
        return cls(
            [Column(name, oid) for name, oid in document["columns"]],
            [tuple(row) for row in document["rows"]],
            tuple(document["cut"]),
        )
