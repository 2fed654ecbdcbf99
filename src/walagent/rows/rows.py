"""Rows as PostgreSQL printed them: exact, whatever the type, and loaded when values are wanted."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from psycopg.adapt import Transformer
from psycopg.pq import Format

from walagent import pgtypes
from walagent.message import Json
from walagent.rows import frames

_HAS_MONTHS: Final = re.compile(r"mon|year").search  # how long one is depends on the calendar

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
        scope: why there may be rows that this reader is not shown; empty where nothing hides any.
    """

    columns: Sequence[Column]
    texts: Sequence[Texts] = ()
    cut: Sequence[str] = ()
    scope: Sequence[str] = ()

    @cached_property
    def values(self) -> Sequence[tuple[Any, ...]]:
        """The rows as Python's own types; a text where Python's type lacks the value.

        Infinite dates and those before Christ are such, intervals with months, and values that
        were cut.
        """
        types = Transformer(None)
        loaders = [types.get_loader(each.type_oid, Format.TEXT).load for each in self.columns]

        def loaded(n: int, text: str | None) -> Any:  # noqa: ANN401 - of any type
            if text is None or (self.columns[n].type_oid == pgtypes.INTERVAL and _HAS_MONTHS(text)):
                return text
            try:
                return loaders[n](text.encode())
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

    @property
    def distinct_names(self) -> Sequence[str]:
        """The same, with a number behind those that a join has made twice."""
        counts, seen = Counter(self.names), Counter[str]()
        found: list[str] = []
        for name in self.names:
            distinct = name
            while distinct in found or (counts[name] > 1 and distinct == name):
                seen[name] += 1
                distinct = f"{name} ({seen[name]})"
            found.append(distinct)
        return found

    def dicts(self) -> Sequence[dict[str, Any]]:
        """Give each row as a dictionary, by the columns' distinct names."""
        return [dict(zip(self.distinct_names, row, strict=True)) for row in self.values]

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """Make a DataFrame of pandas; see `frames.to_pandas`."""
        return frames.to_pandas(self)

    def to_polars(self) -> Any:  # noqa: ANN401 - a polars.DataFrame
        """Make a DataFrame of polars; see `frames.to_polars`."""
        return frames.to_polars(self)

    def to_json(self) -> dict[str, Json]:
        """Write them as JSON, losing nothing."""
        return {
            "columns": [[column.name, column.type_oid] for column in self.columns],
            "rows": [list(row) for row in self.texts],
            "cut": list(self.cut),
            "scope": list(self.scope),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> "Rows":
        """Read what `to_json` wrote."""
        return cls(
            [Column(name, oid) for name, oid in document["columns"]],
            [tuple(row) for row in document["rows"]],
            tuple(document["cut"]),
            tuple(document.get("scope", ())),
        )
