"""Print the rows of an answer as a table, as CSV or as Markdown.

The values are untrusted.  A terminal, a spreadsheet and a Markdown renderer interpret different
characters, so each format escapes its own; JSON has the values unchanged.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from walagent.cli.terminal.output import cell, clean, say
from walagent.cli.terminal.table import WHOLE, Cells, print_lines, side_by_side
from walagent.postgres import pgtypes
from walagent.rows.rows import Rows

if TYPE_CHECKING:
    from rich.console import Console

MOST_SHOWN: Final = 100  # rows on a terminal; more belong in a file

_NUMBERS: Final = pgtypes.NUMBERS | {pgtypes.OID, pgtypes.MONEY}
_AROUND: Final = 8  # lines of a screen for the answer's text and evidence
_NARROW: Final = 8  # characters; the least that is readable
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")  # the first character of a formula
_MARKUP: Final = re.compile(r"([\\`*_\[\]|~!$#])")
_NULL: Final = "NULL"
_GAP: Final = "  "


def print_table(rows: Rows, more: str = "use --output csv to print all") -> None:
    """Print rows as a table: truncated to the size of a terminal, complete in a pipe.

    Args:
        more: how to see what a terminal does not show.
    """
    if not rows.columns:
        return
    if not rows.texts:
        click.echo("(no rows)")
    elif not sys.stdout.isatty():
        click.echo("\n".join(plain_lines(rows)))
    elif omitted := len(rows) - _print_on_terminal(rows):
        say(f"note: {omitted:,} more rows; {more}")


def _print_on_terminal(rows: Rows) -> int:
    """Print the first rows, and return how many."""
    from rich.console import Console

    console = Console(highlight=False)
    lines = _lines(rows)[:MOST_SHOWN]
    styles = [["dim" if text is None else "" for text in row] for row in rows.texts[:MOST_SHOWN]]
    columns = [
        Cells(cell(name), texts, is_number, WHOLE if is_number else _NARROW, looks)
        for name, is_number, texts, looks in zip(
            rows.distinct_names,
            _numbers(rows),
            zip(*lines, strict=True),
            zip(*styles, strict=True),
            strict=True,
        )
    ]
    table = side_by_side(columns, len(lines), console.width)
    if table is None or len(table[0].text) > console.width:
        return _print_records(rows, console)
    print_lines(table)
    return len(lines)


def print_csv(rows: Rows) -> None:
    """Print rows as CSV in PostgreSQL's COPY format: NULL is empty, an empty string is "".

    A string that a spreadsheet would evaluate as a formula is prefixed with an apostrophe, and a
    note is printed.
    """
    text, changed = csv_text(rows)
    click.echo(clean(text) if sys.stdout.isatty() else text, nl=False)
    if changed:
        say(f"note: {changed} values look like formulas and were prefixed with an apostrophe")


def csv_text(rows: Rows) -> tuple[str, int]:
    """Return rows as CSV, and how many values were prefixed with an apostrophe."""
    numbers = _numbers(rows)
    changed = 0
    lines = [",".join(_field(_harmless(name)) for name in rows.names)]
    for row in rows.texts:
        safe = [
            text if is_number or text is None else _harmless(text)
            for text, is_number in zip(row, numbers, strict=True)
        ]
        changed += sum(a != b for a, b in zip(row, safe, strict=True))
        lines.append(",".join(map(_field, safe)))
    return "".join(f"{line}\n" for line in lines), changed


def print_markdown(rows: Rows) -> None:
    """Print rows as a Markdown table in which no value is interpreted as markup."""
    if rows.columns:
        click.echo(f"| {' | '.join(map(_escaped, rows.distinct_names))} |")
        kinds = ("---:" if column.type_oid in _NUMBERS else "---" for column in rows.columns)
        click.echo(f"| {' | '.join(kinds)} |")
    for row in rows.texts:
        click.echo(f"| {' | '.join(_NULL if text is None else _escaped(text) for text in row)} |")


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _field(text: str | None) -> str:
    if text is None:
        return ""
    if text and not any(char in text for char in ',"\n\r') and text == text.strip():
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _escaped(text: str) -> str:
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return clean(_MARKUP.sub(r"\\\1", plain).replace("\r\n", "\n")).replace("\n", "<br>")


def _numbers(rows: Rows) -> Sequence[bool]:
    return [column.type_oid in _NUMBERS for column in rows.columns]


def _lines(rows: Rows) -> Sequence[Sequence[str]]:
    """Format every cell as one line of text."""
    return [[_NULL if text is None else cell(text) for text in row] for row in rows.texts]


def plain_lines(rows: Rows) -> Iterator[str]:
    """Format all rows as columns, however wide."""
    lines = [[cell(name) for name in rows.distinct_names], *_lines(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = _numbers(rows)
    for line in lines:
        padded = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        yield _GAP.join(padded).rstrip()


def _print_records(rows: Rows, console: "Console") -> int:
    """Print one line for each value, because the columns do not fit side by side.

    Returns:
        how many rows were printed: what fits the screen, and at least one.
    """
    from rich.text import Text

    fit = max(1, (console.height - _AROUND) // (len(rows.columns) + 1))
    names = [cell(name) for name in rows.distinct_names]
    column = min(max(map(len, names)), 30)
    shown_rows = _lines(rows)[:fit]
    for n, line in enumerate(shown_rows, 1):
        console.print(Text(f"row {n}", "bold"))
        for name, text in zip(names, line, strict=True):
            shown = Text(f"  {name[:column].ljust(column)}  {text}")
            console.print(shown, no_wrap=True, overflow="ellipsis")
    return len(shown_rows)
