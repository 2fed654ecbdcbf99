"""Print results to stdout and messages to stderr.

The values may come from rows and are untrusted: control characters never reach the terminal, and
nothing is interpreted as markup.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import partial
from shutil import get_terminal_size
from typing import cast

import click
import orjson

from walagent.domain.untrusted import visible
from walagent.message import Json

json_option = partial(
    click.option, "--json", "as_json", is_flag=True, help="Print one JSON document."
)


def limit_option(
    what: str, *, default: int = 50, most: int | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make the option --limit of a command that lists.

    Args:
        most: the greatest number that it accepts.
    """
    return click.option(
        "--limit",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        metavar="N",
        help=f"Maximum number of {what}.",
    )


_WANTED = "walagent.json"  # in the context of click


def _note(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's
    ctx.meta[_WANTED] = value


# --json of a command that changes something; `done` and `produce` follow it.
json_result = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_note,
    help="Print one JSON document.",
)


def print_json(document: Json) -> None:
    """Print one JSON document."""
    click.echo(_escaped(orjson.dumps(document, default=_plain, option=orjson.OPT_INDENT_2)))


def print_line(document: Json) -> None:
    """Print one JSON document as one line."""
    click.echo(_escaped(orjson.dumps(document, default=_plain)))


def _escaped(document: bytes) -> bytes:
    """Escape what a reader does not see if stdout is a terminal; the document stays the same."""
    if not sys.stdout.isatty():
        return document
    return visible(document.decode(), _json_escape).encode()


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be").hex(" ", 2).split()
    return "".join(f"\\u{unit}" for unit in units)


def print_wrapped(line: str, *, hang: int = 2, color: str | None = None) -> None:
    """Print a line; on a terminal, wrapped between words.

    Args:
        hang: blanks before a continuation, in addition to those before the line.
        color: of the first word.
    """
    line = clean(line)
    if sys.stdout.isatty():
        text = line.lstrip(" ")
        begin = len(line) - len(text)
        pieces = wrapped(text, max(get_terminal_size().columns - begin - hang, 20))
        line = " " * begin + ("\n" + " " * (begin + hang)).join(pieces)
        first, blank, rest = line.partition(" ")
        line = click.style(first, fg=color) + blank + rest if color else line
    click.echo(line)


def wrapped(text: str, width: int) -> list[str]:
    """Break a paragraph into lines, between words where possible."""
    from rich.console import Console
    from rich.text import Text

    return [line.plain.rstrip() for line in Text(text).wrap(Console(), width)]


def say(words: str, *, color: str | None = None) -> None:
    """Print *words* to stderr; a closed stderr is not an error."""
    try:
        click.secho(clean(words), fg=color, err=True)
    except OSError:
        # Its buffer would be flushed again at exit, fail again, and change the exit code.
        with suppress(OSError, ValueError):
            sys.stderr = open(sys.stderr.fileno(), "w", buffering=1, closefd=False)  # noqa: SIM115 - open until exit


def done(words: str, **facts: Json) -> None:
    """Say what was changed; with --json, print *facts* as a document instead."""
    if wants_json():
        print_json(facts)
    else:
        say(words)


def produce(**fact: Json) -> None:
    """Print the one thing that a command was called for; with --json, under its name."""
    if wants_json():
        print_json(fact)
    else:
        (value,) = fact.values()
        click.echo(clean(str(value)))


def wants_json() -> bool:
    """Return whether the command has `json_result`, and --json was given."""
    return click.get_current_context().meta.get(_WANTED, False)


def clean(text: str) -> str:
    """Show the characters that a terminal would interpret, or nobody sees, as what they are."""
    return visible(text)


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


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    return str(value)
