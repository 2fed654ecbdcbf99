"""Print rows: a table on a terminal, plain columns in a pipe, JSON on request.

A table has one line for each row and is no wider than the terminal.  Numbers and ages are whole;
the longest texts are shortened first and end in "…".  What no cell can hold, such as an error, is
a line below its row.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Self

import click

from walagent.cli.terminal.output import cell, print_json, say, wrapped

Row = Mapping[str, Any]

_GAP: Final = "  "
_INDENT: Final = "    "
WHOLE: Final = 1000  # characters; more than a terminal has
# Seconds of a unit, and from how many of them on it is used: "119m", then "2h".
_UNITS: Final = (
    (31_536_000, "y", 2), (604_800, "w", 3), (86_400, "d", 2), (3600, "h", 2), (60, "m", 1),
)  # fmt: skip
_NUMBERS: Final = (int, float, Decimal, datetime)
_SHORT: Final = {
    "waiting_approval": "approval",
    "waiting_retry": "retry",
    "needs_review": "review",
    "waits for the reader": "starting",
}
_STYLES: Final = {
    "succeeded": "green", "active": "green", "running": "cyan", "failed": "red", "dead": "red",
    "review": "yellow", "approval": "yellow", "paused": "yellow",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, and its value in a row.

    Args:
        least: the width to which it is shortened; numbers and times never are.
    """

    title: str
    value: Callable[[Row], object]
    least: int = 5


@dataclass(frozen=True, slots=True)
class Below:
    """A text below a row.

    Args:
        whole: wrap it, do not shorten it.
    """

    text: str
    style: str = "dim"
    whole: bool = False


def _nothing(_row: Row) -> Iterable[Below]:
    return ()


@dataclass(frozen=True, slots=True)
class Screen:
    """What a terminal shows of each row."""

    columns: Sequence[Column]
    below: Callable[[Row], Iterable[Below]] = _nothing


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table: texts with their styles."""

    parts: Sequence[tuple[str, str]]

    @property
    def text(self) -> str:
        """The line without styles."""
        return "".join(text for text, _ in self.parts).rstrip()


class Dollars(float):
    """An amount of US dollars."""

    def __str__(self) -> str:
        """Format it with at least two decimals; of a small amount, two digits that are not zero."""
        places = 2 if abs(self) >= 1 or not self else max(6, 2 - math.floor(math.log10(abs(self))))
        whole, _, decimals = f"{float(self):.{places}f}".partition(".")
        return f"{whole}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def print_rows(
    rows: Sequence[Row],
    columns: Sequence[str],
    *,
    as_json: bool,
    empty: str,
    screen: Screen | None = None,
) -> None:
    """Print rows: every column as JSON, *columns* in a pipe, *screen* on a terminal.

    Args:
        empty: printed to stderr if there are no rows.
        screen: None: *columns*.
    """
    if as_json:
        print_json(list(rows))
    elif not rows:
        say(empty)
    elif sys.stdout.isatty():
        _print_table(rows, columns, screen)
    else:
        _print_columns(rows, columns)


def column(name: str, title: str = "", *, least: int = 5) -> Column:
    """Return the column of the value *name*."""
    title = title or name.removesuffix("_at").replace("_", " ")
    return Column(title, lambda row: row.get(name), least)


def state_column() -> Column:
    """Return the column of the state, in one word."""
    return Column("state", lambda row: _SHORT.get(row["state"], row["state"]), WHOLE)


def relation_column() -> Column:
    """Return the column of the table; the schema "public" is omitted."""
    return Column("table", lambda row: (row["relation"] or "").removeprefix("public."))


def dollars_column(name: str, title: str) -> Column:
    """Return the column of an amount of US dollars."""
    return Column(title, lambda row: None if row[name] is None else Dollars(row[name]))


def age(moment: datetime, now: datetime) -> str:
    """Format the time since *moment*, or until it, in its largest unit."""
    seconds = int((now - moment).total_seconds())
    length = abs(seconds)
    words = next(
        (f"{length // unit}{name}" for unit, name, least in _UNITS if length >= unit * least),
        f"{length}s",
    )
    return words if seconds >= 0 else f"in {words}"


def lay_out(
    rows: Sequence[Row], screen: Screen, width: int, now: datetime
) -> tuple[Sequence[Line], Sequence[str]]:
    """Return the lines of a table, and the titles of the columns that do not fit *width*.

    A column of only nulls and zeros is omitted.
    """
    filled = [each for each in screen.columns if any(each.value(row) for row in rows)]
    columns = [Cells.of(each, rows, now) for each in filled]
    omitted = list[str]()
    while (table := side_by_side(columns, len(rows), width)) is None:
        omitted.insert(0, columns.pop().title)
    lines = list(table[:1])
    for line, row in zip(table[1:], rows, strict=True):
        lines.append(line)
        lines += [line for below in screen.below(row) for line in _below(below, width)]
    return lines, omitted


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines with their styles on a terminal; nothing in them is markup."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        console.print(Text.assemble(*line.parts), no_wrap=True, overflow="crop")


def _print_table(rows: Sequence[Row], columns: Sequence[str], screen: Screen | None) -> None:
    from rich.console import Console

    shown = screen or Screen([column(name) for name in columns])
    lines, omitted = lay_out(rows, shown, Console().width, datetime.now(UTC))
    print_lines(lines)
    if omitted:
        say(f"note: omitted to fit the terminal: {', '.join(omitted)}")


def _print_columns(rows: Sequence[Row], columns: Sequence[str]) -> None:
    lines = [list(columns), *([cell(row.get(name)) or "-" for name in columns] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        click.echo(_GAP.join(padded).rstrip())


class LiveTable:
    """A table that fills a terminal, redrawn with each list of rows, inside its `with` block."""

    def __init__(self, screen: Screen, *, empty: str) -> None:
        """Store what is shown.

        Args:
            empty: shown if there are no rows.
        """
        from rich.console import Console
        from rich.live import Live

        self._screen = screen
        self._empty = empty
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        """Switch to the alternate screen."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the screen."""
        self._live.stop()

    @property
    def height(self) -> int:
        """Return the number of lines between the titles and the last line."""
        return max(self._console.height - 2, 1)

    def show(self, rows: Sequence[Row]) -> None:
        """Draw *rows*, as many as fit."""
        from rich.console import Group
        from rich.text import Text

        lines: Sequence[Line] = [Line([(self._empty, "")])]
        if rows:
            lines, _ = lay_out(rows, self._screen, self._console.width, datetime.now(UTC))
        shown = [Text.assemble(*line.parts, no_wrap=True) for line in lines[: self.height + 1]]
        self._live.update(Group(*shown, Text("Ctrl-C to stop", "dim")), refresh=True)


@dataclass(frozen=True, slots=True)
class Cells:
    """A column as texts.

    Args:
        is_number: aligned to the right.
        least: the width to which it is shortened.
        styles: of the texts, "" for none.
    """

    title: str
    texts: Sequence[str]
    is_number: bool
    least: int
    styles: Sequence[str]

    @classmethod
    def of(cls, column: Column, rows: Sequence[Row], now: datetime) -> Self:
        """Format the values of a column."""
        values = [column.value(row) for row in rows]
        is_number = all(value is None or isinstance(value, _NUMBERS) for value in values)
        texts = [_text(value, now) for value in values]
        styles = [_STYLES.get(text, "") for text in texts]
        return cls(column.title, texts, is_number, WHOLE if is_number else column.least, styles)

    @property
    def wanted(self) -> int:
        """Return the width that shortens nothing."""
        return max(map(_width, (self.title, *self.texts)))


def _text(value: object, now: datetime) -> str:
    match value:
        case datetime():
            return age(value, now)
        case Dollars():
            return str(value)
        case _:
            return cell(value)


def side_by_side(columns: Sequence[Cells], rows: int, width: int) -> Sequence[Line] | None:
    """Return a line of titles and one for each row; None if the columns do not fit *width*."""
    if (widths := _widths(columns, width)) is None:
        return None
    titles = [each.title for each in columns]
    return [
        Line([(_joined(columns, widths, titles), "bold")]),
        *(_row(columns, widths, n) for n in range(rows)),
    ]


def _widths(columns: Sequence[Cells], room: int) -> Sequence[int] | None:
    """Return the width of each column, shortening the longest texts; None: they do not fit."""
    wanted = [each.wanted for each in columns]
    left = room - len(_GAP) * (len(columns) - 1)
    widths = wanted
    for most in range(max(wanted, default=0), 0, -1):
        if sum(widths) <= left:
            return widths
        widths = [
            min(width, max(most, each.least)) for each, width in zip(columns, wanted, strict=True)
        ]
    return widths if sum(widths) <= left or len(columns) <= 1 else None


def _row(columns: Sequence[Cells], widths: Sequence[int], n: int) -> Line:
    parts = list[tuple[str, str]]()
    for each, width in zip(columns, widths, strict=True):
        text = each.texts[n]
        parts += [
            (_fitted(text, width, right=each.is_number), each.styles[n]),
            (_GAP, ""),
        ]
    return Line(parts[:-1])


def _joined(columns: Sequence[Cells], widths: Sequence[int], texts: Sequence[str]) -> str:
    return _GAP.join(
        _fitted(text, width, right=each.is_number)
        for each, width, text in zip(columns, widths, texts, strict=True)
    )


def _below(below: Below, width: int) -> Iterable[Line]:
    text = cell(below.text)
    room = max(width - len(_INDENT), 1)
    pieces = wrapped(text, room) if below.whole else [_shortened(text, room)]
    return [Line([(_INDENT, ""), (piece, below.style)]) for piece in pieces]


def _width(text: str) -> int:
    """Return the number of cells: some characters are two wide, and others none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _fitted(text: str, width: int, *, right: bool) -> str:
    text = _shortened(text, width)
    padding = " " * (width - _width(text))
    return padding + text if right else text + padding


def _shortened(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    from rich.cells import set_cell_size

    return f"{set_cell_size(text, width - 1).rstrip()}…"
