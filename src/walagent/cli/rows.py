"""Print the rows of an answer as a table, as CSV or as Markdown.

The values are untrusted.  A terminal, a spreadsheet and a Markdown renderer interpret different
characters, so each format escapes its own; JSON has the values unchanged.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from walagent.cli.output import cell, clean, say
from walagent.postgres import pgtypes
from walagent.rows.rows import Rows

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

    if (widths := _widths(rows, Console().width)) is not None:
        _print_rich(rows, widths)
        return min(len(rows), MOST_SHOWN)
    return _print_records(rows)


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
    numbers = [column.type_oid in _NUMBERS for column in rows.columns]
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


def _lines(rows: Rows) -> Sequence[Sequence[str]]:
    """Format every cell as one line of text."""
    return [[_NULL if text is None else cell(text) for text in row] for row in rows.texts]


def plain_lines(rows: Rows) -> Iterator[str]:
    """Format all rows as columns, however wide."""
    lines = [[cell(name) for name in rows.distinct_names], *_lines(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [column.type_oid in _NUMBERS for column in rows.columns]
    for line in lines:
        padded = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        yield _GAP.join(padded).rstrip()


def _widths(rows: Rows, room: int) -> Sequence[int] | None:
    """Return the width of each column; None if they do not fit side by side.

    Numbers are never truncated: they would be misread.  Strings share the remaining width.
    """
    from rich.cells import cell_len

    lines = [[cell(name) for name in rows.distinct_names], *_lines(rows)[:MOST_SHOWN]]
    wanted = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    numbers = [column.type_oid in _NUMBERS for column in rows.columns]
    widths = [
        width if is_number else min(width, _NARROW)
        for width, is_number in zip(wanted, numbers, strict=True)
    ]
    left = room - sum(widths) - len(_GAP) * (len(widths) - 1)
    if left < 0:
        return None
    while short := [n for n, width in enumerate(widths) if width < wanted[n] and left > 0]:
        share = max(1, left // len(short))
        for n in short:
            more = min(share, wanted[n] - widths[n], left)
            widths[n] += more
            left -= more
    return widths


def _print_rich(rows: Rows, widths: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, column, width in zip(rows.distinct_names, rows.columns, widths, strict=True):
        justify = "right" if column.type_oid in _NUMBERS else "left"
        table.add_column(
            Text(cell(name)), justify=justify, no_wrap=True, overflow="ellipsis", width=width
        )
    for row in rows.texts[:MOST_SHOWN]:
        table.add_row(*(Text(_NULL, "dim") if text is None else Text(cell(text)) for text in row))
    Console(highlight=False).print(table)


def _print_records(rows: Rows) -> int:
    """Print one line for each value, because the columns do not fit side by side.

    Returns:
        how many rows were printed: what fits the screen, and at least one.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
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
