"""`ask`: one question in plain words; and `index`, which reads what questions can be about."""

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
from walagent.ask.catalog import Indexed
from walagent.ask.moves import MAX_REPLANS
from walagent.ask.options import MOST_RETRIES, Options
from walagent.ask.outcome import Outcome
from walagent.cli.answer import FORMATS, Format, show
from walagent.cli.exit_codes import FAILED
from walagent.cli.output import json_option, print_json, say
from walagent.cli.plotting import check_plotting
from walagent.cli.progress import Progress
from walagent.cli.session import Session, Where, open_session, where_options
from walagent.errors import (
    ConfigError,
    ModelLimitedError,
    ModelUnavailableError,
    PreconditionError,
    WalagentError,
)
from walagent.mask import mask

ON_STDIN = "-"

pattern_option = click.option(
    "--pattern",
    type=click.Choice(["parallel", "sequential"], case_sensitive=False),
    default="parallel",
    show_default=True,
    help="Whether steps that do not need one another run side by side.",
)
retries_option = click.option(
    "--retries",
    type=click.IntRange(0, MOST_RETRIES),
    default=MAX_REPLANS,
    show_default=True,
    help="How often is planned again after a statement that failed.",
)
candidates_option = click.option(
    "--candidates",
    type=click.IntRange(1, MOST_CANDIDATES),
    default=1,
    show_default=True,
    help="Ask for so many plans, carry all of them out, and take what most come to.",
)
index_option = click.option(
    "--index", "index_first", is_flag=True, help="Read the schema anew before."
)
verbose_option = click.option(
    "--verbose", "-v", is_flag=True, help="Show the plan, each step with its time, and the cost."
)
# PG Agent has it; programs and scripts that were written for that go on.
redis_option = click.option(
    "--redis", expose_value=False, help="Ignored: sessions are kept in the database."
)


@click.command("ask")
@click.argument("question", required=False)
@click.option("--session", help="Go on with this session, or begin it: later questions know of it.")
@click.option("--model", help="Which model plans and answers.")
@pattern_option
@retries_option
@candidates_option
@index_option
@verbose_option
@redis_option
@click.option(
    "--output", type=click.Choice(FORMATS), default="table", help="How the rows are printed."
)
@click.option(
    "--plot",
    "chart",
    is_flag=False,
    flag_value="",
    metavar="[FILE.png]",
    help="Draw the rows, on the terminal or into a file.",
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
    """Ask the database QUESTION, and get the answer with the SQL behind it.

    A model plans read-only statements; PostgreSQL's own analysis decides whether they may run.
    A session that was cut off goes on where it was.  "-" reads the question from stdin.
    """
    question, drawn = _question_and_chart(question, chart)
    options = Options(
        parallel=pattern.lower() == "parallel", retries=retries, candidates=candidates
    )
    name = session if session is not None else f"ask-{uuid4().hex[:12]}"
    form = cast("Format", "json" if as_json else output)
    progress = Progress(verbose=verbose)
    with _telling(form, name):
        asked = _Asked(_text(question), name, options, model, index_first=index_first)
        if drawn is not None:
            check_plotting(None if drawn is True else drawn)
        outcome = asyncio.run(_answered(open_session(where), asked, progress))
    worked = show(outcome, output=form, chart=drawn)
    progress.tell_cost(outcome)
    if not worked:
        sys.exit(FAILED)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, and how it is to be answered."""

    text: str
    session: str
    options: Options
    model: str | None
    index_first: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        """See that it makes sense.

        Raises:
            ConfigError: it does not.
        """
        check_question(self.text)
        check_session(self.session)


@contextmanager
def _telling(form: Format, session: str) -> Generator[None]:
    """Tell programs of an error as they are told of an answer, and people what they can do."""
    try:
        yield
    except WalagentError as error:
        told = error
        if isinstance(error, ModelUnavailableError | ModelLimitedError):
            told = _gone(error, session)
        if form == "json":
            answer = {"answer": mask(str(told)), "hint": mask(told.hint), "session": session}
            print_json({"status": "error", **answer})
        if told is error:
            raise
        raise told from error


async def _answered(opened: Session, asked: _Asked, progress: Progress) -> Outcome:
    """Answer; first what an earlier process of this session has left, which may be the same."""
    async with (
        opened.places() as places,
        open_asker(places, opened.config.ask, asked.options, model=asked.model) as asker,
    ):
        if asked.index_first:
            say(describe(await asker.index()))
        with progress:
            resumed = await asker.resume(asked.session, progress.tell)
            if resumed is not None and resumed.question == asked.text:
                return resumed
            if resumed is not None:
                say(f"finished: {resumed.question}\n{resumed.text}\n")
            return await asker.ask(asked.text, asked.session, progress.tell)


def _question_and_chart(
    question: str | None, chart: str | None
) -> tuple[str, Path | Literal[True] | None]:
    """Tell the question from the file: `--plot "How many?"` draws on the terminal."""
    if question is None and chart and not chart.lower().endswith(".png"):
        question, chart = chart, ""
    if question is None:
        raise click.UsageError("Missing argument 'QUESTION'.")
    if chart and not chart.lower().endswith(".png"):
        raise click.UsageError(
            f"--plot writes PNG: give its file a name that ends so, not {chart!r}."
        )
    return question, None if chart is None else Path(chart) if chart else True


def _text(question: str) -> str:
    """Give the question; from stdin no more than one may have."""
    if question != ON_STDIN:
        return question
    read = sys.stdin.buffer.read(4 * LONGEST + 1)
    if len(read) > 4 * LONGEST:
        raise ConfigError(f"the question has more than {LONGEST:,} characters")
    return read.decode(errors="surrogateescape").strip()


def _gone(error: WalagentError, session: str) -> PreconditionError:
    """Say what a person does about a model that does not answer."""
    return PreconditionError(
        str(error),
        hint="look at what the model's provider says, and at base_url in `walagent models`; the"
        f" question waits: the same command with --session {session} goes on",
    )


@click.command("index")
@json_option()
@where_options
def index_(where: Where, *, as_json: bool) -> None:
    """Read the schema anew, in one transaction: what questions can be about.

    Questions notice by themselves when tables change; this also takes up new values and sizes.
    """
    opened = open_session(where)

    async def indexed() -> Indexed:
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


def describe(indexed: Indexed) -> str:
    """Say what there is to ask about."""
    changed = "changed" if indexed.changed else "as before"
    return (
        f"questions can be about {indexed.tables:,} tables with {indexed.columns:,} columns,"
        f" of {indexed.sampled:,} of which values are shown; {changed}"
    )
