"""Print the rows of an answer as a table, as CSV or as Markdown.

The values are untrusted.  A terminal, a spreadsheet and a Markdown renderer interpret different
characters, so each format escapes its own; JSON has the values unchanged.
"""

import re
import sys
from collections.abc import Sequence
from typing import Final

import click

from walagent import pgtypes
from walagent.cli.output import cell, clean, say
from walagent.rows.rows import Rows

MOST_SHOWN: Final = 100  # rows on a terminal; more belong in a file

_NUMBERS: Final = pgtypes.NUMBERS | {pgtypes.OID, pgtypes.MONEY}
_NARROW: Final = 8  # characters; the least that is readable
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")  # the first character of a formula
_MARKUP: Final = re.compile(r"([\\`*_\[\]|~!$#])")
_NULL: Final = "NULL"
_GAP: Final = "  "


def print_table(rows: Rows) -> None:
    """Print rows as a table: truncated to the width of a terminal, complete in a pipe."""
    if not rows.columns:
        return
    if not rows.texts:
        click.echo("(no rows)")
    elif not sys.stdout.isatty():
        _print_columns(rows)
    else:
        _print_on_terminal(rows)
    if sys.stdout.isatty() and len(rows) > MOST_SHOWN:
        say(f"note: {len(rows) - MOST_SHOWN} more rows; use --output csv to print all")


def _print_on_terminal(rows: Rows) -> None:
    from rich.console import Console

    if (widths := _widths(rows, Console().width)) is not None:
        _print_rich(rows, widths)
    else:
        _print_records(rows)


def print_csv(rows: Rows) -> None:
    """Print rows as CSV in PostgreSQL's COPY format: NULL is empty, an empty string is "".

    A string that a spreadsheet would evaluate as a formula is prefixed with an apostrophe, and a
    note is printed.
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
        say(f"note: {changed} values look like formulas and were prefixed with an apostrophe")


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


def _print_records(rows: Rows) -> None:
    """Print one line for each value: the columns do not fit side by side."""
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
