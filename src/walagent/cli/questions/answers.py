"""Print an answer and the SQL behind it."""

from pathlib import Path
from typing import Literal

import click

from walagent.ask.outcome import QuestionResult
from walagent.cli.terminal.answer_rows import print_csv, print_markdown, print_table
from walagent.cli.terminal.output import clean, print_json, say
from walagent.cli.terminal.plotting import plot
from walagent.rows.rows import Rows

Format = Literal["table", "csv", "json", "markdown"]
FORMATS = ("table", "csv", "json", "markdown")


def show(
    outcome: QuestionResult, *, output: Format = "table", chart: Path | Literal[True] | None
) -> bool:
    """Print an answer and its chart; return whether both succeeded.

    Args:
        chart: the file of the chart; True: the terminal; None: no chart.
    """
    show_answer(outcome, output)
    drawn = True
    if chart is not None:
        file = None if chart is True else chart
        drawn = plot(outcome.rows, file) or file is None
    return drawn and outcome.status != "error"


def show_answer(outcome: QuestionResult, output: Format = "table", more: str = "") -> None:
    """Print an answer: text and rows to stdout, its evidence to stderr.

    CSV consists of rows only, so its text goes to stderr, too.

    Args:
        more: how to see the rows that a terminal does not show.
    """
    if output == "json":
        print_json(outcome.to_json())
        return
    words = outcome.text.replace("\r\n", "\n")
    if output == "csv":
        say(words)
    else:
        click.echo(clean(words))
    if outcome.rows.columns:
        if output != "csv":
            click.echo()
        print_result(outcome.rows, output, more)
    show_evidence(outcome)


def show_evidence(outcome: QuestionResult) -> None:
    """Print the statements, sources and assumptions of an answer to stderr."""
    for sql in outcome.sql:
        say(f"\nSQL: {sql.strip()}")
    for source in outcome.sources:
        say(f"source: {source}")
    for assumed in outcome.assumptions:
        say(f"assumption: {assumed}")
    if outcome.agreement:
        say(f"plans: {outcome.agreement}")
    for said in dict.fromkeys((*outcome.caveats, *outcome.rows.cut)):
        say(f"note: {said}")


def print_result(rows: Rows, output: Format, more: str = "") -> None:
    """Print rows; see `show_answer`."""
    match output:
        case "csv":
            print_csv(rows)
        case "markdown":
            print_markdown(rows)
        case "json":
            print_json(as_objects(rows))
        case "table":
            print_table(rows, *([more] if more else []))


def as_objects(rows: Rows) -> list[dict[str, str | None]]:
    """Return rows as JSON objects; values are PostgreSQL's exact text."""
    return [dict(zip(rows.distinct_names, row, strict=True)) for row in rows.texts]
