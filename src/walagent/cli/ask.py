"""`ask`: one question in plain words."""

import asyncio
import csv
import sys
from collections.abc import Callable
from typing import Literal, cast
from uuid import uuid4

import click

from walagent.app.asking import open_asker
from walagent.ask.asking import check_question
from walagent.ask.outcome import Done, Event, Outcome, Planned, Started, Thinking
from walagent.ask.work import Options
from walagent.cli.ending import FAILED
from walagent.cli.output import cell, clean, json_option, print_json, print_rows, say
from walagent.cli.session import Where, open_session, where_options
from walagent.store.guard.rows import Rows

Format = Literal["table", "csv", "json", "markdown"]
_FORMATS = ("table", "csv", "json", "markdown")


@click.command("ask")
@click.argument("question")
@click.option("--session", help="Go on with this session, or begin it: later questions know of it.")
@click.option("--model", help="Which model plans and answers.")
@click.option(
    "--pattern",
    type=click.Choice(["parallel", "sequential"], case_sensitive=False),
    default="parallel",
    show_default=True,
    help="Whether steps that do not need one another run side by side.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the plan and each step as it ends.")
@click.option(
    "--output", type=click.Choice(_FORMATS), default="table", help="How the rows are printed."
)
@json_option()
@where_options
def ask_(  # noqa: PLR0913, PLR0917 - its options
    where: Where,
    question: str,
    session: str | None,
    model: str | None,
    pattern: str,
    output: str,
    *,
    verbose: bool,
    as_json: bool,
) -> None:
    """Ask the database QUESTION, and get the answer with the SQL behind it.

    A model plans read-only statements; PostgreSQL's own analysis decides whether they may run.
    A session that was cut off goes on where it was.
    """
    check_question(question)
    opened = open_session(where)
    options = Options(parallel=pattern.lower() == "parallel")
    name = session or f"ask-{uuid4().hex[:12]}"

    async def asked() -> Outcome:
        async with (
            opened.places() as places,
            open_asker(places, opened.config.ask, options, model=model) as asker,
        ):
            told = telling(verbose=verbose)
            await asker.resume(name, told)
            return await asker.ask(question, name, told)

    show(asyncio.run(asked()), output="json" if as_json else cast("Format", output))


def telling(*, verbose: bool) -> Callable[[Event], None]:
    """Tell the person at the screen how far it is; on stderr."""

    def tell(event: Event) -> None:
        match event:
            case Thinking(who):
                if verbose or sys.stderr.isatty():
                    say(f"… {who}")
            case Planned(plan) if verbose:
                say(f"plan: {plan.reasoning}")
                for step in plan.steps:
                    say(f"  [{step.id}] {step.type} {step.description}")
            case Started(step) if verbose:
                say(f"[{step.id}] {step.text('query') or step.text('sql')}")
            case Done(result) if verbose:
                say(f"[{result.id}] {result.error or f'{len(result.rows)} rows'}")
            case _:
                pass

    return tell


def show(outcome: Outcome, *, output: Format = "table") -> None:
    """Print an answer with its proof; ends the process with 1 where there is none."""
    if output == "json":
        print_json(outcome.to_json())
    else:
        show_answer(outcome, output)
    if outcome.status == "error":
        sys.exit(FAILED)


def show_answer(outcome: Outcome, output: Format = "table") -> None:
    """Print an answer: words and rows to stdout, what they rest on to stderr."""
    click.echo(clean(outcome.text))
    if (last := outcome.last_rows) is not None:
        click.echo()
        print_result(last.rows, output)
    for sql in outcome.sql:
        say(f"\nSQL: {sql.strip()}")
    for assumed in outcome.assumptions:
        say(f"assumed: {assumed}")
    for caveat in outcome.caveats:
        say(f"note: {caveat}")


def print_result(rows: Rows, output: Format) -> None:
    """Print rows."""
    names = _distinct(rows)
    match output:
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(rows.names)
            writer.writerows(rows.texts)
        case "markdown":
            click.echo(f"| {' | '.join(names)} |")
            click.echo("|" + " --- |" * len(names))
            for row in rows.texts:
                click.echo(f"| {' | '.join(cell(text).replace('|', '&#124;') for text in row)} |")
        case _:
            shown = [dict(zip(names, row, strict=True)) for row in rows.texts]
            print_rows(shown, names, as_json=False, empty="no rows")


def _distinct(rows: Rows) -> list[str]:
    """Number columns of the same name, which a join makes."""
    names = list(rows.names)
    return [
        name if names.count(name) == 1 else f"{name} ({names[:n].count(name) + 1})"
        for n, name in enumerate(names)
    ]
