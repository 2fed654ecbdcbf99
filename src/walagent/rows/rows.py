"""Rows in PostgreSQL's text format: exact for every type, converted to Python on access."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from psycopg.adapt import Transformer
from psycopg.pq import Format

from walagent.message import Json
from walagent.postgres import pgtypes
from walagent.rows import frames

_HAS_MONTHS: Final = re.compile(r"mon|year").search  # their length depends on the calendar

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result: its name and PostgreSQL type."""

    name: str
    type_oid: int


@dataclass(frozen=True)
class Rows:
    """The result of a statement.

    Args:
        texts: one tuple for each row, one text for each column; None is NULL.
        cut: what was truncated or omitted, in words; empty if nothing was.
        scope: reasons why rows can be hidden from this reader; empty if none are.
    """

    columns: Sequence[ResultColumn]
    texts: Sequence[Texts] = ()
    cut: Sequence[str] = ()
    scope: Sequence[str] = ()

    @cached_property
    def values(self) -> Sequence[tuple[Any, ...]]:
        """Return the values as Python types, or as text where the Python type lacks the value.

        Python lacks infinite dates and dates BC, and intervals with months.  Truncated values are
        text too.
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

    @property
    def lacks_rows(self) -> bool:
        """Return whether rows were left out."""
        return any(said.startswith("only the first") for said in self.cut)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows' values."""
        return iter(self.values)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.texts)

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the columns; they can repeat."""
        return [column.name for column in self.columns]

    @property
    def distinct_names(self) -> Sequence[str]:
        """Return the names of the columns, with a number appended to repeated ones."""
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
        """Return each row as a dictionary, by distinct column names."""
        return [dict(zip(self.distinct_names, row, strict=True)) for row in self.values]

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """Convert to a pandas DataFrame; see `frames.to_pandas`."""
        return frames.to_pandas(self._frame(), len(self))

    def to_polars(self) -> Any:  # noqa: ANN401 - a polars.DataFrame
        """Convert to a polars DataFrame; see `frames.to_polars`."""
        return frames.to_polars(self._frame())

    def _frame(self) -> list[frames.Column]:
        return [
            frames.Column(
                name,
                column.type_oid,
                [row[n] for row in self.texts],
                [row[n] for row in self.values],
            )
            for n, (name, column) in enumerate(zip(self.distinct_names, self.columns, strict=True))
        ]

    def to_json(self) -> dict[str, Json]:
        """Convert to JSON without loss."""
        return {
            "columns": [[column.name, column.type_oid] for column in self.columns],
            "rows": [list(row) for row in self.texts],
            "cut": list(self.cut),
            "scope": list(self.scope),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> "Rows":
        """Convert the output of `to_json` back."""
        return cls(
            [ResultColumn(name, oid) for name, oid in document["columns"]],
            [tuple(row) for row in document["rows"]],
            tuple(document["cut"]),
            tuple(document.get("scope", ())),
        )
