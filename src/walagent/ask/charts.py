"""What of some rows can be drawn: one axis, and series of numbers over it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from math import isfinite
from typing import Any, Final, Literal

from walagent.postgres import pgtypes
from walagent.rows.rows import ResultColumn, Rows

MOST_SERIES: Final = 7  # the number of distinguishable colors
MOST_BARS: Final = 40  # two screens

_NUMBERS: Final = pgtypes.NUMBERS | {pgtypes.MONEY}
_TIMES: Final = frozenset({pgtypes.DATE, pgtypes.TIMESTAMP, pgtypes.TIMESTAMPTZ})

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Something to draw.

    Args:
        kind: lines over numbers or times; bars over words.
        axis: what is on it.
        labels: of bars, one for each point: those have the numbers 0, 1, 2 …
        is_time: whether the axis has seconds since 1970, in UTC.
        left_out: what is not drawn, in words.
    """

    kind: Literal["lines", "bars"]
    axis: str
    series: Mapping[str, Sequence[Point]]
    labels: Sequence[str] = ()
    is_time: bool = False
    left_out: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NoChart:
    """Nothing can be drawn."""

    reason: str


def chart_of(rows: Rows) -> Chart | NoChart:
    """Choose what is drawn: numbers over the times, words or numbers of another column."""
    if len(rows) < 2:  # noqa: PLR2004 - a point is no series
        return NoChart("the result has one row" if len(rows) else "the result has no rows")
    numbers = [n for n, column in enumerate(rows.columns) if column.type_oid in _NUMBERS]
    if not numbers:
        return NoChart("no column of the result has numbers")
    axis = _axis(rows.columns, numbers)
    drawn = [n for n in numbers if n != axis] or numbers
    words = [n for n in range(len(rows.columns)) if n not in {axis, *numbers}]
    if axis is not None and rows.columns[axis].type_oid not in _TIMES | _NUMBERS:
        chart = _bars(rows, axis, drawn)
    elif axis is not None and len(drawn) == 1 and len(words) == 1:
        chart = _lines_by_word(rows, axis, drawn[0], words[0])
    else:
        chart = _lines(rows, axis if drawn != [axis] else None, drawn)
    if not any(chart.series.values()):
        return NoChart("no row has both a number and a place for it")
    return chart


def _axis(columns: Sequence[ResultColumn], numbers: Sequence[int]) -> int | None:
    """Choose the column to draw over: a time, else a word, else the first of several numbers."""
    kinds = [column.type_oid for column in columns]
    times = [n for n, oid in enumerate(kinds) if oid in _TIMES]
    words = [n for n in range(len(kinds)) if n not in numbers]
    found = times or words or (numbers[:1] if len(numbers) > 1 else [])
    return found[0] if found else None


def _lines(rows: Rows, axis: int | None, drawn: Sequence[int]) -> Chart:
    xs = [float(n) for n in range(1, len(rows) + 1)]
    name, is_time = "row", False
    places: Sequence[float | None] = xs
    if axis is not None:
        name, is_time = rows.distinct_names[axis], rows.columns[axis].type_oid in _TIMES
        places = [_number(row[axis]) for row in rows.values]
    series = {rows.distinct_names[n]: _points(places, rows, n) for n in drawn[:MOST_SERIES]}
    return Chart("lines", name, series, is_time=is_time, left_out=_beyond(drawn))


def _lines_by_word(rows: Rows, axis: int, number: int, word: int) -> Chart:
    """A line for each word of a column: months, countries, totals."""
    names = list(dict.fromkeys(str(row[word]) for row in rows.texts))
    series = {name: list[Point]() for name in names[:MOST_SERIES]}
    for row, texts in zip(rows.values, rows.texts, strict=True):
        x, y = _number(row[axis]), _number(row[number])
        if x is not None and y is not None and (name := str(texts[word])) in series:
            series[name].append((x, y))
    is_time = rows.columns[axis].type_oid in _TIMES
    ordered = {name: sorted(points) for name, points in series.items()}
    left_out = _beyond(names)
    return Chart("lines", rows.distinct_names[axis], ordered, is_time=is_time, left_out=left_out)


def _bars(rows: Rows, axis: int, drawn: Sequence[int]) -> Chart:
    labels = ["NULL" if row[axis] is None else str(row[axis]) for row in rows.texts]
    places = [float(n) for n in range(min(len(rows), MOST_BARS))]
    series = {rows.distinct_names[n]: _points(places, rows, n) for n in drawn[:MOST_SERIES]}
    more = len(rows) - MOST_BARS
    left_out = [*_beyond(drawn), *([f"{more} more rows are not drawn"] if more > 0 else [])]
    name = rows.distinct_names[axis]
    return Chart("bars", name, series, labels[:MOST_BARS], left_out=left_out)


def _points(places: Iterable[float | None], rows: Rows, n: int) -> Sequence[Point]:
    pairs = zip(places, (_number(row[n]) for row in rows.values), strict=False)
    return sorted((x, y) for x, y in pairs if x is not None and y is not None)


def _beyond(series: Sequence[object]) -> Sequence[str]:
    more = len(series) - MOST_SERIES
    return [f"{more} more series are not drawn"] if more > 0 else []


def _number(value: Any) -> float | None:  # noqa: ANN401 - of any type
    """Give a finite number, or a time's seconds; None for what is neither."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC).timestamp()
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if isfinite(number) else None
