"""Print results to stdout: a table on a terminal, plain columns in a pipe, JSON on request.

The values may come from rows and are untrusted: control characters never reach the terminal, and
nothing is interpreted as markup.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, cast

import click
import orjson

from walagent.message import Json

json_option = partial(
    click.option, "--json", "as_json", is_flag=True, help="Print one JSON document."
)

# Characters that a terminal interprets and JSON does not escape: C1 controls, line separators, and
# marks that change the direction of text.
_BARE = (*range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)
_CONTROLS = {code: "�" for code in (*range(32), *_BARE) if code not in {9, 10}}
_GAP = "  "
_LONGEST_WORD = 24  # characters; longer ones are broken to keep a table narrow
_ESCAPES = {code: f"\\u{code:04x}" for code in _BARE}


def print_json(document: Json) -> None:
    """Print one JSON document."""
    click.echo(_escaped(orjson.dumps(document, default=_plain, option=orjson.OPT_INDENT_2)))


def print_line(document: Json) -> None:
    """Print one JSON document as one line."""
    click.echo(_escaped(orjson.dumps(document, default=_plain)))


def _escaped(document: bytes) -> bytes:
    """Escape the characters of `_BARE` if stdout is a terminal; the document stays the same."""
    if not sys.stdout.isatty():
        return document
    return document.decode().translate(_ESCAPES).encode()


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    as_json: bool,
    empty: str,
    optional: Sequence[str] = (),
) -> None:
    """Print rows: every column as JSON, else *columns* as a table.

    Args:
        empty: printed to stderr if there are no rows.
        optional: columns to omit on a narrow terminal, the first one first.
    """
    if as_json:
        print_json(list(rows))
    elif not rows:
        say(empty)
    elif sys.stdout.isatty():
        _print_table(rows, columns, optional)
    else:
        _print_columns(rows, columns)


def say(words: str, *, color: str | None = None) -> None:
    """Print *words* to stderr; a closed stderr is not an error."""
    try:
        click.secho(clean(words), fg=color, err=True)
    except OSError:
        # Its buffer would be flushed again at exit, fail again, and change the exit code.
        with suppress(OSError, ValueError):
            sys.stderr = open(sys.stderr.fileno(), "w", buffering=1, closefd=False)  # noqa: SIM115 - open until exit


def clean(text: str) -> str:
    """Replace the characters that a terminal would interpret."""
    return text.translate(_CONTROLS)


def cell(value: object) -> str:
    """Format a value as one line of text."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float() | Decimal():
            return f"{value:.6g}"
        case datetime():
            return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        case str():
            return clean(value.replace("\n", " ").replace("\t", " "))
        case Mapping():
            return clean(orjson.dumps(value, default=_plain).decode())
        case Iterable():
            return ", ".join(cell(item) for item in cast("Iterable[object]", value))
        case _:
            return str(value)


def _print_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], optional: Sequence[str]
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    # On a terminal, a column of only nulls and zeros is omitted; in a pipe, every column is there.
    filled = [name for name in columns if any(row.get(name) for row in rows)]
    widths, omitted = _fitted(
        {name: [row.get(name) for row in rows] for name in filled}, optional, console.width
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, width in widths.items():
        table.add_column(_title(name), overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(cell(row.get(name)), style=_style(row.get(name))) for name in widths))
    console.print(table)
    if omitted:
        say(f"note: omitted to fit the terminal: {', '.join(map(_title, omitted))}")


def _fitted(
    columns: Mapping[str, Sequence[object]], optional: Sequence[str], room: int
) -> tuple[Mapping[str, int], Sequence[str]]:
    """Return the width of each column, and the columns to omit.

    A column first gets the width at which none of its words is broken; what is left goes to the
    columns from left to right.
    """
    widths = {name: _longest_word(name, values) for name, values in columns.items()}
    omitted = list[str]()
    left = room + len(_GAP) - sum(width + len(_GAP) for width in widths.values())
    for name in filter(columns.__contains__, optional):
        if left >= 0:
            break
        left += widths.pop(name) + len(_GAP)
        omitted.append(name)
    for name, width in widths.items():
        full = max(len(_title(name)), *(len(cell(value)) for value in columns[name]))
        widths[name] += max(0, min(left, full - width))
        left -= widths[name] - width
    return widths, omitted


def _longest_word(name: str, values: Sequence[object]) -> int:
    words = name.split("_")
    for value in values:
        text = cell(value)
        words += [text] if isinstance(value, datetime) else text.split()
    return min(max(map(len, words)), _LONGEST_WORD)


def _title(name: str) -> str:
    return name.replace("_", " ")


_STYLES = {
    "succeeded": "green", "active": "green", "running": "cyan", "failed": "red", "dead": "red",
    "needs_review": "yellow", "waiting_approval": "yellow", "paused": "yellow",
}  # fmt: skip


def _style(value: object) -> str:
    return _STYLES.get(value, "") if isinstance(value, str) else ""


def _print_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    lines = [list(columns), *([cell(row.get(name)) or "-" for name in columns] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        click.echo(_GAP.join(padded).rstrip())


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    return str(value)
