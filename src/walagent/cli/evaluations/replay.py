"""`walagent replay`: recorded changes again, through a candidate version."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from walagent.cli.evaluations.asking_again import ask_again
from walagent.cli.evaluations.case_view import case_lines
from walagent.cli.evaluations.ended import ended
from walagent.cli.evaluations.progress import ReplayProgress
from walagent.cli.exit_codes import FAILED
from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.cli.terminal.output import json_option, print_json, print_wrapped, say
from walagent.cli.terminal.table import Dollars
from walagent.config import Config
from walagent.config.entries import AgentEntry
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.telemetry import log
from walagent.trial.attaching import Wanted
from walagent.trial.cases import Choice
from walagent.trial.replaying import Begun, Replay, Replayed, ReplayOptions

_LAST: Final = 50  # runs


@click.command("replay")
@click.argument("attachment", required=False)
@click.option(
    "--questions",
    is_flag=True,
    help="Ask saved questions again, instead; each without its saved statement.",
)
@click.option(
    "--last",
    type=click.IntRange(1, 10_000),
    help="Number of runs, the last ones that have ended, or of questions.  [default: 50]",
)
@click.option(
    "--where",
    "condition",
    default="",
    metavar="SQL",
    help="Only recorded rows t for which it is true.",
)
@click.option("--failed", is_flag=True, help="Only runs that failed.")
@click.option(
    "--corrected", is_flag=True, help="Only runs of which somebody has changed what they wrote."
)
@click.option("--scored", is_flag=True, help="Only runs that people have scored.")
@click.option("--dataset", metavar="NAME", help="The changes of a dataset, instead of runs.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="With --dataset: only N cases.")
@click.option("--model", metavar="NAME", help="The candidate has this model, and no cascade.")
@click.option(
    "--prompt",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The candidate has the instructions of this file.",
)
@click.option(
    "--agents-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The candidate is ATTACHMENT of this file.",
)
@click.option(
    "--tier",
    type=click.Choice(["standard", "flex"]),
    help="The candidate is asked in this tier: flex costs less and takes longer.",
)
@click.option("--judge", metavar="MODEL", help="Ask a model which of two that differ is right.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 16),
    default=1,
    show_default=True,
    help="Cases at once; those that write the same rows wait for one another.",
)
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 if fewer are right, or agree where there are no labels.",
)
@json_option()
@where_options
def replay_(  # noqa: PLR0913 - its options
    where: Where,
    attachment: str | None,
    *,
    questions: bool,
    last: int | None,
    condition: str,
    failed: bool,
    corrected: bool,
    scored: bool,
    dataset: str | None,
    limit: int | None,
    model: str | None,
    prompt: Path | None,
    agents_file: Path | None,
    tier: str | None,
    judge: str | None,
    jobs: int,
    fail_under: float | None,
    as_json: bool,
) -> None:
    """Replay recorded changes of ATTACHMENT through a candidate version, and compare.

    The candidate is the version in use, with what the options change.  The model is called and
    costs money, which budgets count.  Tools are executed in transactions that are rolled back, and
    calls that would wait for approval with them.  Calls outside the database are answered as they
    were in the recorded run if they are equal, and are not made.  Only the evaluation is kept.

    With --questions, the questions that people have saved are asked again, and the rows of the
    answers are compared with those of the saved statements.

    Exit codes: 0 replayed, 1 the share of --fail-under is not reached.
    """
    selects = (("--failed", failed), ("--corrected", corrected), ("--scored", scored))
    if questions:
        _refuse_beside_questions(
            {
                "ATTACHMENT": attachment, "--where": condition, **dict(selects),
                "--dataset": dataset, "--limit": limit, "--prompt": prompt,
                "--agents-file": agents_file, "--tier": tier, "--judge": judge, "--jobs": jobs > 1,
            }
        )  # fmt: skip
        log.configure("text", "error")
        asked = ask_again(open_session(where), model, last or _LAST, as_json=as_json)
        _finish(asyncio.run(asked), fail_under, as_json=as_json)
        return
    if attachment is None:
        raise click.UsageError("Missing argument 'ATTACHMENT'.")
    for option, is_given in selects:
        if dataset is not None and is_given:
            text = f"{option} selects runs, and --dataset replaces them"
            raise ConfigError(text, hint="Use one.")
    if limit is not None and dataset is None:
        raise ConfigError("--limit requires --dataset", hint="Use --last for runs.")
    if last is not None and dataset is not None:
        raise ConfigError("--last selects runs, and --dataset replaces them", hint="Use --limit.")
    session = open_session(replace(where, config=agents_file or where.config))
    text = None if prompt is None else _text(prompt)
    given = {"model": model, "system_prompt": text, "tier": tier}
    draft: dict[str, Json] = {name: value for name, value in given.items() if value is not None}
    # A model of a cascade would answer before the one that is to be compared.
    alone: dict[str, Json] = {} if model is None else {"cascade": []}
    changed = {**draft, **alone}
    wanted = _candidate(session.config, attachment, changed, of_file=agents_file is not None)
    differs = draft if agents_file is None else {**draft, "file": str(agents_file)}
    choice = Choice(last or _LAST, condition, failed, dataset, limit, corrected, scored)
    options = ReplayOptions(choice, judge, jobs)
    log.configure("text", "error")
    found = _replayed(session, attachment, wanted, differs, options, as_json=as_json)
    document = asyncio.run(found)
    _finish(document, fail_under, as_json=as_json)


def _refuse_beside_questions(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            raise ConfigError(f"--questions cannot be combined with {option}")


def _finish(document: dict[str, Any], fail_under: float | None, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    if fail_under is not None:
        _check(document, fail_under)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (at byte {error.start})") from error


def _candidate(config: Config, name: str, draft: dict[str, Json], *, of_file: bool) -> Wanted:
    """Say what to attach: the version in use, or that of a file, each with what differs."""
    if not of_file:
        config = config.model_copy(update={"agents": {}, "attachments": {}})
        return Wanted(name, config, draft=draft)
    if draft:
        entry = config.all_attachments.get(name)
        agent = config.agents.get(entry.agent) if entry is not None else None
        if entry is not None and agent is None:
            raise ConfigError(
                f'agent "{entry.agent}" is not in the file', hint="Leave --agents-file out."
            )
        if entry is not None and agent is not None:
            config = _changed(config, entry.agent, agent, draft)
    return Wanted(name, config, only_file=True)


def _changed(config: Config, name: str, agent: AgentEntry, draft: dict[str, Json]) -> Config:
    agents = {**config.agents, name: agent.model_copy(update=draft)}
    return config.model_copy(update={"agents": agents})


async def _replayed(  # noqa: PLR0913 - what is replayed, and how it is shown
    session: CliSession,
    attachment: str,
    wanted: Wanted,
    differs: dict[str, Json],
    options: ReplayOptions,
    *,
    as_json: bool,
) -> dict[str, Any]:
    def begin(begun: Begun) -> None:
        _announce(begun)
        progress.begin(len(begun.chosen.cases))

    def show(done: Replayed) -> None:
        progress.count(agrees=done.agrees)
        if as_json or (done.agrees is True and done.is_right is not False):
            return
        with progress.paused():
            for line in case_lines(done.to_json()):
                print_wrapped(line)

    async with session.places() as places:
        replay = Replay(places.dsn, attachment, wanted, differs, options)
        with ReplayProgress() as progress:
            evaluation = await replay.execute(begin, show)
        return await ended(session, places, evaluation, as_json=as_json)


def _announce(begun: Begun) -> None:
    """Say what will happen, before it costs anything."""
    count = len(begun.chosen.cases)
    cases = "1 case" if count == 1 else f"{count} cases"
    if begun.first_cost is None:
        price = "at an unknown price"
    elif not begun.first_cost:
        price = "free of charge"
    else:
        price = f"for up to ${Dollars(begun.first_cost)} for the first call of the first"
    gone = f"; {begun.chosen.gone} left out, whose rows are gone" if begun.chosen.gone else ""
    say(
        f"evaluation {begun.evaluation}: replaying {cases} of {begun.table} through"
        f" {begun.model}, as role {begun.run_as}, {price}{gone}; nothing else is kept"
    )


def _check(counts: dict[str, Any], least: float) -> None:
    """Exit with 1 if a share is too low: of right ones, or of those that agree."""
    if counts["labelled"]:
        share, what = counts["are_right"] / counts["labelled"], "right"
    elif compared := counts["agreeing"] + counts["differing"]:
        share, what = counts["agreeing"] / compared, "equal to what was recorded"
    else:
        raise ConfigError(
            "--fail-under compares with labels or recorded runs, and the cases have none",
            hint="Label cases: walagent evaluations datasets label.",
        )
    if share < least:
        say(f"{share:.4g} are {what}, fewer than {least:g}", color="red")
        sys.exit(FAILED)
