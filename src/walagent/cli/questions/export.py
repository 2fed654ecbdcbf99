"""Write rows to a new file, as CSV or JSON."""

import json
from pathlib import Path

from walagent.cli.questions.answers import as_objects
from walagent.cli.terminal.answer_rows import csv_text
from walagent.cli.terminal.output import say
from walagent.errors import ConfigError
from walagent.rows.rows import Rows


def export_csv(rows: Rows, file: str) -> None:
    """Write rows as CSV; a text that a spreadsheet would run gets an apostrophe.

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    text, changed = csv_text(rows)
    _write(file, text)
    if changed:
        say(f"note: {changed} values look like formulas and were prefixed with an apostrophe")


def export_json(rows: Rows, file: str) -> None:
    """Write rows as JSON objects with PostgreSQL's exact text.

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    _write(file, json.dumps(as_objects(rows), ensure_ascii=False, indent=2) + "\n")


def _write(file: str, text: str) -> None:
    """Write a new file.

    Raises:
        ConfigError: it exists, or cannot be written.
    """
    try:
        with Path(file).expanduser().open("x", encoding="utf-8", newline="") as out:
            out.write(text)
    except FileExistsError as error:
        raise ConfigError(f'file "{file}" exists', hint="Name a new file.") from error
    except OSError as error:
        raise ConfigError(f'cannot write "{file}": {error.strerror}') from error
    say(f"wrote {file}")
