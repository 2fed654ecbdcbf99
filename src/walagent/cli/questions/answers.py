"""Print an answer and the SQL behind it."""

from pathlib import Path
from typing import Literal

import click

from walagent.ask.outcome import QuestionResult
from walagent.ask.plan import StepType
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
    shown = outcome.shown
    if output == "csv":  # one table: a program reads it
        for each in shown[:-1]:
            say(f"note: the rows of step {each.id} are not in the CSV; use --output json")
        shown = shown[-1:]
    for each in shown:
        if output != "csv":
            click.echo()
            if len(shown) > 1:
                gap = "\n" if output == "markdown" else ""
                click.echo(clean(f"{each.id}: {_description(outcome, each.id)}") + gap)
        print_result(each.rows, output, more)
    show_evidence(outcome)


def _description(outcome: QuestionResult, step: str) -> str:
    steps = outcome.plan.steps if outcome.plan else ()
    return next((each.description for each in steps if each.id == step), "")


def show_evidence(outcome: QuestionResult) -> None:
    """Print the statements, sources and assumptions of an answer to stderr."""
    for each in outcome.in_order:
        if each.query and each.type in {StepType.SQL, StepType.ANALYZE}:
            say(f"\n{each.type.value}: {each.query.strip()}")
    for source in outcome.sources:
        say(f"source: {source}")
    for assumed in outcome.assumptions:
        say(f"assumption: {assumed}")
    if outcome.agreement:
        say(f"plans: {outcome.agreement}")
    cut = (said for each in outcome.shown for said in each.rows.cut)
    for said in dict.fromkeys((*outcome.caveats, *cut)):
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
