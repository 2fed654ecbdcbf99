"""Rows of an answer: a table for people, CSV for spreadsheets, Markdown for pages.

What is in them may come from strangers.  A terminal, a spreadsheet and a page each obey something
else, so each is kept from it in its own way; JSON has the values as they are.
"""

import re
import sys
from collections.abc import Sequence
from typing import Final

import click

from walagent import pgtypes
from walagent.cli.output import cell, clean, say
from walagent.rows.rows import Rows

MOST_SHOWN: Final = 100  # rows on a terminal; whoever wants more wants a file

_NUMBERS: Final = pgtypes.NUMBERS | {pgtypes.OID, pgtypes.MONEY}
_NARROW: Final = 8  # characters below which a column says nothing any more
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")  # how spreadsheets know one
_MARKUP: Final = re.compile(r"([\\`*_\[\]|~!$#])")
_NULL: Final = "NULL"
_GAP: Final = "  "


def print_table(rows: Rows) -> None:
    """Print rows as a table: cut to the width of a terminal, whole in a pipe."""
    if not rows.columns:
        return
    if not rows.texts:
        click.echo("(no rows)")
    elif not sys.stdout.isatty():
        _print_columns(rows)
    else:
        _print_on_terminal(rows)
    if sys.stdout.isatty() and len(rows) > MOST_SHOWN:
        say(f"note: {len(rows) - MOST_SHOWN} more rows are not shown; --output csv has them all")


def _print_on_terminal(rows: Rows) -> None:
    from rich.console import Console

    if (widths := _widths(rows, Console().width)) is not None:
        _print_rich(rows, widths)
    else:
        _print_records(rows)


def print_csv(rows: Rows) -> None:
    """Print rows as CSV, as PostgreSQL's COPY does: NULL is nothing, an empty text is "".

    A text that a spreadsheet would take for a formula gets an apostrophe in front; that is said.
    """
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
    text = "".join(f"{line}\n" for line in lines)
    click.echo(clean(text) if sys.stdout.isatty() else text, nl=False)
    if changed:
        say(f"note: {changed} values begin like formulas and have an apostrophe in front of them")


def print_markdown(rows: Rows) -> None:
    """Print rows as a table of Markdown that shows each value as it is, whatever is in it."""
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
    """Every cell as one line of text."""
    return [[_NULL if text is None else cell(text) for text in row] for row in rows.texts]


def _print_columns(rows: Rows) -> None:
    lines = [[cell(name) for name in rows.distinct_names], *_lines(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [column.type_oid in _NUMBERS for column in rows.columns]
    for line in lines:
        padded = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        click.echo(_GAP.join(padded).rstrip())


def _widths(rows: Rows, room: int) -> Sequence[int] | None:
    """Give each column its width; None where there is not room for all of them.

    A number is never cut: it would be read as another one.  Texts share what is left.
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


def _print_records(rows: Rows) -> None:
    """Print one line for each value, where there are too many columns to stand side by side."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    names = [cell(name) for name in rows.distinct_names]
    column = min(max(map(len, names)), 30)
    for n, line in enumerate(_lines(rows)[:MOST_SHOWN], 1):
        console.print(Text(f"row {n}", "bold"))
        for name, text in zip(names, line, strict=True):
            shown = Text(f"  {name[:column].ljust(column)}  {text}")
            console.print(shown, no_wrap=True, overflow="ellipsis")
