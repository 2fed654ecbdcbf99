"""`walagent wal resync`: create a new slot after a gap, and recover the gap's rows."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import click

from walagent.cli.session import CliSession, Where, open_session, slot_option, where_options
from walagent.cli.start.init import tell_blockers
from walagent.cli.terminal.output import json_option, print_json, say
from walagent.cli.terminal.table import print_rows
from walagent.config.base import to_seconds
from walagent.errors import ConfigError
from walagent.intake.gap_plan import OVERLAP, SKIP, GapPlan, check_choice
from walagent.intake.recovery import RowRecovery
from walagent.matching.document import SizeLimits
from walagent.replication.resync import ResyncResult, find_gaps, resync
from walagent.store import resyncing
from walagent.store.gaps import ChoiceResult, Gap, GapChoice
from walagent.store.install.pooling import check_pooling
from walagent.store.resyncing import ResyncCandidate

_COLUMNS = ["attachment", "choice", "since", "rows", "runs", "undated"]
_FORM = "skip, all or since:COLUMN"


@click.command("resync")
@click.option(
    "--attachment",
    "named",
    multiple=True,
    metavar="NAME=CHOICE",
    help=f"Rows to run for one attachment: {_FORM}; repeatable.",
)
@click.option("--default", metavar="CHOICE", help="The choice for all other attachments.")
@click.option(
    "--overlap",
    default=f"{OVERLAP.total_seconds():.0f}s",
    show_default=True,
    metavar="TIME",
    help="How far before the gap since:COLUMN starts.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option()
@where_options
@slot_option
def resync_(  # noqa: PLR0913 - the options
    where: Where,
    named: Sequence[str],
    default: str | None,
    overlap: str,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Create a new slot after a gap, and start runs for the rows you choose.

    The changes in the gap are lost, but the rows exist.  The choices for each attachment are:

    \b
      skip          start no runs
      since:COLUMN  start runs for rows changed since the gap
      all           start runs for all rows of the table

    COLUMN stores when a row was last changed, such as updated_at.  On a terminal, resync prompts
    for choices that are not given.
    """  # noqa: D301 - click's mark for lines that are not wrapped
    session = open_session(where)
    given = dict(_named(word) for word in named)
    fallback = None if default is None else read_choice(default)
    margin = _margin(overlap)
    session, gaps, candidates = asyncio.run(_look(session))
    if not gaps:
        say(f"slot {session.config.replication.slot} is valid and there is no open gap")
        return
    _print_gaps(gaps)
    changes = session.config.changes
    limits = SizeLimits(changes.max_value, changes.max_row)
    plan = GapPlan(_choose(candidates, given, fallback), margin, limits)
    if not yes:
        click.confirm("Create a new slot?", abort=True, err=True)
    done = asyncio.run(_resync(session, plan))
    _report(session, done, as_json=as_json)


async def _look(
    session: CliSession,
) -> tuple[CliSession, Sequence[Gap], Sequence[ResyncCandidate]]:
    async with session.places() as places, session.connect(places) as conn:
        session = await session.with_slot(conn)
        gaps = await find_gaps(conn, places.replication_dsn, session.config.replication)
        return session, gaps, await resyncing.candidates(conn)


async def _resync(session: CliSession, plan: GapPlan) -> ResyncResult:
    async with session.places() as places, session.connect(places) as conn:
        await check_pooling(conn, places.dsn)
        settings = session.config.replication
        recovery = RowRecovery(places.dsn, plan, say, places.tools_dsn)
        return await resync(conn, places, settings, recovery, waiting=tell_blockers)


def read_choice(word: str) -> GapChoice:
    """Read ``skip``, ``all`` or ``since:COLUMN``.

    Raises:
        ConfigError: it is none of these.
    """
    kind, colon, column = word.partition(":")
    match kind.strip().lower(), colon, column.strip():
        case ("skip" | "all") as kind, "", "":
            return GapChoice(kind)
        case "since", ":", column if column:
            return GapChoice("since", column)
        case _:
            raise ConfigError(
                f'invalid choice "{word}"', hint=f"Use {_FORM}, such as since:updated_at."
            )


def _named(word: str) -> tuple[str, GapChoice]:
    name, equals, choice = word.rpartition("=")
    if not equals:
        raise ConfigError(f'--attachment "{word}" has no choice', hint=f"Use NAME=CHOICE: {_FORM}.")
    return name, read_choice(choice)


def _margin(overlap: str) -> timedelta:
    try:
        return timedelta(seconds=float(str(to_seconds(overlap))))
    except ValueError as error:
        raise ConfigError(f'--overlap "{overlap}": {error}') from error


def _print_gaps(gaps: Sequence[Gap]) -> None:
    for gap in gaps:
        since = f"; ingested until {gap.since:%Y-%m-%d %H:%M:%S %Z}" if gap.since else ""
        say(f"gap {gap.id}: {gap.reason}{since}")


def _choose(
    candidates: Sequence[ResyncCandidate], given: Mapping[str, GapChoice], default: GapChoice | None
) -> dict[str, GapChoice]:
    """Return the choice for each attachment: from the options, else from a prompt."""
    choices = dict(given)
    missing = [each for each in candidates if each.name not in given and not each.in_threads]
    if default is not None:
        choices |= {each.name: default for each in missing}
    elif missing and not sys.stdin.isatty():
        names = ", ".join(each.name for each in missing)
        raise ConfigError(
            f"no choice for {names}",
            hint=f"Use --attachment NAME=CHOICE or --default CHOICE: {_FORM}.",
        )
    else:
        choices |= {each.name: _ask(each) for each in missing}
    known = {each.name: each for each in candidates}
    for name, choice in choices.items():
        if name not in known:
            raise ConfigError(
                f'attachment "{name}" does not exist',
                hint="Use walagent agents to list attachments.",
            )
        check_choice(known[name], choice)
    return choices


def _ask(candidate: ResyncCandidate) -> GapChoice:
    """Prompt until the choice is valid."""
    columns = ", ".join(f"since:{name}" for name in candidate.columns)
    offers = ", ".join(filter(None, ["skip", "all", columns])) if candidate.has_key else "skip"
    question = f"{candidate.name} on {candidate.relation} ({', '.join(candidate.ops)}): {offers}"
    while True:
        try:
            choice = read_choice(click.prompt(question, default=str(SKIP), err=True))
            check_choice(candidate, choice)
        except ConfigError as error:
            say(f"{error}; {error.hint}")
        else:
            return choice


def _report(session: CliSession, done: ResyncResult, *, as_json: bool) -> None:
    slot = session.config.replication.slot
    rows = [_row(one) for one in done.made]
    if as_json:
        print_json({"slot": slot, "start": str(done.start), "attachments": rows})
    else:
        print_rows(rows, _COLUMNS, as_json=False, empty="no attachments")
    for one in done.made:
        if one.undated:
            say(f"{one.attachment}: skipped {one.undated} rows without {one.choice.column}")
    if any(one.choice.kind == "all" for one in done.made):
        say("walagent agents backfills shows the progress")
    say(f"created slot {slot} at {done.start}; start walagent run")


def _row(made: ChoiceResult) -> dict[str, Any]:
    return {
        "attachment": made.attachment,
        "choice": str(made.choice),
        "since": made.since,
        "rows": made.rows,
        "runs": made.runs,
        "undated": made.undated,
    }
