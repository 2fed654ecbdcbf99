"""`walagent ask`: answer one question; `walagent knowledge index`: refresh the schema index."""

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast
from uuid import uuid4

import click

from walagent.ask.answering import open_asker, open_reading
from walagent.ask.asking import LONGEST, check_question, check_session
from walagent.ask.candidates import MOST as MOST_CANDIDATES
from walagent.ask.catalog import IndexSummary
from walagent.ask.moves import MAX_REPLANS
from walagent.ask.options import MOST_RETRIES, Options
from walagent.ask.outcome import QuestionResult
from walagent.cli.exit_codes import FAILED
from walagent.cli.questions.answers import FORMATS, Format, show
from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.cli.terminal.output import json_option, print_json, say
from walagent.cli.terminal.plotting import check_plotting
from walagent.cli.terminal.progress import ProgressDisplay
from walagent.errors import (
    ConfigError,
    ModelLimitedError,
    ModelUnavailableError,
    PreconditionError,
    WalagentError,
)
from walagent.telemetry.mask import mask

ON_STDIN = "-"

pattern_option = click.option(
    "--pattern",
    type=click.Choice(["parallel", "sequential"], case_sensitive=False),
    default="parallel",
    show_default=True,
    help="How independent steps run.",
)
retries_option = click.option(
    "--retries",
    type=click.IntRange(0, MOST_RETRIES),
    default=MAX_REPLANS,
    show_default=True,
    help="Maximum replans after failed statements.",
)
candidates_option = click.option(
    "--candidates",
    type=click.IntRange(1, MOST_CANDIDATES),
    default=1,
    show_default=True,
    help="Plans to run; the most common result is used.",
)
index_option = click.option(
    "--index", "index_first", is_flag=True, help="Refresh the schema index first."
)
verbose_option = click.option(
    "--verbose", "-v", is_flag=True, help="Show the plan, the steps with their times, and the cost."
)
# For scripts that were written for PG Agent.
redis_option = click.option(
    "--redis", expose_value=False, help="Ignored: sessions are stored in the database."
)


@click.command("ask")
@click.argument("question", required=False)
@click.option("--session", help="Session to continue or create; it keeps earlier questions.")
@click.option("--model", help="Model that plans and answers.")
@pattern_option
@retries_option
@candidates_option
@index_option
@verbose_option
@redis_option
@click.option(
    "--output",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Format of the rows.",
)
@click.option(
    "--plot",
    "chart",
    is_flag=False,
    flag_value="",
    metavar="[FILE.png]",
    help="Plot the rows on the terminal, or to a file.",
)
@json_option()
@where_options
def ask_(  # noqa: PLR0913, PLR0917 - its options
    where: Where,
    question: str | None,
    session: str | None,
    model: str | None,
    pattern: str,
    retries: int,
    candidates: int,
    output: str,
    chart: str | None,
    *,
    index_first: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Ask the database QUESTION; print the answer and the SQL behind it.

    A model plans read-only statements; they run only if PostgreSQL's own analysis accepts them.
    An interrupted session continues where it stopped.  "-" reads the question from stdin.
    """
    question, drawn = _question_and_chart(question, chart)
    options = Options(
        parallel=pattern.lower() == "parallel", retries=retries, candidates=candidates
    )
    name = session if session is not None else f"ask-{uuid4().hex[:12]}"
    form = cast("Format", "json" if as_json else output)
    progress = ProgressDisplay(verbose=verbose)
    with _reported_errors(form, name):
        asked = _Asked(_text(question), name, options, model, index_first=index_first)
        if drawn is not None:
            check_plotting(None if drawn is True else drawn)
        outcome = asyncio.run(_answered(open_session(where), asked, progress))
    succeeded = show(outcome, output=form, chart=drawn)
    progress.show_cost(outcome)
    if not succeeded:
        sys.exit(FAILED)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question and its options."""

    text: str
    session: str
    options: Options
    model: str | None
    index_first: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        """Validate question and session.

        Raises:
            ConfigError: one of them is invalid.
        """
        check_question(self.text)
        check_session(self.session)


@contextmanager
def _reported_errors(form: Format, session: str) -> Generator[None]:
    """Print an error as JSON too, if answers are; add the hint how to continue the session."""
    try:
        yield
    except WalagentError as error:
        shown = error
        if isinstance(error, ModelUnavailableError | ModelLimitedError):
            shown = _resumable(error, session)
        if form == "json":
            answer = {"answer": mask(str(shown)), "hint": mask(shown.hint), "session": session}
            print_json({"status": "error", **answer})
        if shown is error:
            raise
        raise shown from error


async def _answered(opened: CliSession, asked: _Asked, progress: ProgressDisplay) -> QuestionResult:
    """Answer, after finishing the question that an earlier process of this session left open."""
    async with (
        opened.places() as places,
        open_asker(places, opened.config.ask, asked.options, model=asked.model) as asker,
    ):
        if asked.index_first:
            say(describe(await asker.index()))
        with progress:
            return await asker.ask_in_turn(
                asked.text,
                asked.session,
                progress.show,
                lambda question, answer: say(f"finished: {question}\n{answer}\n"),
            )


def _question_and_chart(
    question: str | None, chart: str | None
) -> tuple[str, Path | Literal[True] | None]:
    """Separate the question from the file: `--plot "How many?"` plots on the terminal."""
    if question is None and chart and not chart.lower().endswith(".png"):
        question, chart = chart, ""
    if question is None:
        raise click.UsageError("Missing argument 'QUESTION'.")
    if chart and not chart.lower().endswith(".png"):
        raise click.UsageError(f'--plot: file name "{chart}" does not end in .png')
    return question, None if chart is None else Path(chart) if chart else True


def _text(question: str) -> str:
    """Return the question; from stdin read no more than the longest question has."""
    if question != ON_STDIN:
        return question
    read = sys.stdin.buffer.read(4 * LONGEST + 1)
    if len(read) > 4 * LONGEST:
        raise ConfigError(f"the question is longer than {LONGEST:,} characters")
    return read.decode(errors="surrogateescape").strip()


def _resumable(error: WalagentError, session: str) -> PreconditionError:
    """Add what to do about a model that is unavailable."""
    return PreconditionError(
        str(error),
        hint="Check the provider's status and base_url in walagent agents models. To continue this"
        f" question, repeat the command with --session {session}.",
    )


@click.command("index")
@json_option()
@where_options
def index_(where: Where, *, as_json: bool) -> None:
    """Refresh the schema index: the tables, columns and sample values that questions can use.

    Questions detect changed tables themselves; index also updates sample values and sizes.
    """
    opened = open_session(where)

    async def indexed() -> IndexSummary:
        async with (
            opened.places() as places,
            open_reading(places, opened.config.ask) as reading,
        ):
            return await reading.catalog.index()

    found = asyncio.run(indexed())
    if as_json:
        print_json(
            {"tables": found.tables, "columns": found.columns, "sampled": found.sampled,
             "changed": found.changed}
        )  # fmt: skip
    else:
        say(describe(found))


def describe(indexed: IndexSummary) -> str:
    """Summarize the schema index in one line."""
    changed = "changed" if indexed.changed else "unchanged"
    return (
        f"schema index: {indexed.tables:,} tables, {indexed.columns:,} columns,"
        f" {indexed.sampled:,} with sample values; {changed}"
    )
