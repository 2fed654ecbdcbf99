"""The commands for runs: list, show, retry, cancel and prioritize."""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import click

from walagent.cli.runs.many import Finder, chosen, named
from walagent.cli.runs.run_filters import run_filters
from walagent.cli.runs.run_view import print_run
from walagent.cli.session import CliSession, Where, ask, open_session, where_options
from walagent.cli.terminal.output import done, json_option, json_result, limit_option, print_json
from walagent.cli.terminal.signals import until_stopped
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Column,
    LiveTable,
    Row,
    Screen,
    column,
    dollars_column,
    print_rows,
    relation_column,
    state_column,
)
from walagent.domain.run import RunState
from walagent.errors import ConfigError
from walagent.store.people import listings, operator
from walagent.store.people.listings import Connection
from walagent.store.people.run_filter import RunFilter


def _error(row: Row) -> Iterable[Below]:
    if row["error"]:
        yield Below(row["error"], "red" if row["state"] in {"failed", "dead"} else "dim")


_PERIOD: Final = 2.0  # seconds between two readings of --watch
_SCREEN: Final = Screen(
    [
        column("id"),
        Column("attachment", lambda row: row["attachment"] or f"({row['kind']})", 12),
        state_column(),
        column("op", least=WHOLE),
        relation_column(),
        column("key"),
        Column("priority", lambda row: row["priority"] or None),
        Column("tries", lambda row: row["attempt"] if row["attempt"] > 1 else None),
        column("tokens"),
        dollars_column("cost", "cost"),
        column("created_at", "age"),
    ],
    _error,
)


@click.command("list")
@run_filters()
@limit_option("runs")
@click.option("--watch", is_flag=True, help="Show the list again every 2 s, until Ctrl-C.")
@json_option()
@where_options
def list_(where: Where, filters: RunFilter, limit: int, *, watch: bool, as_json: bool) -> None:
    """List runs, newest first."""
    if watch:
        if as_json or not sys.stdout.isatty():
            raise ConfigError(
                "--watch requires a terminal", hint="Use walagent runs list --json in a script."
            )
        asyncio.run(until_stopped(watch=_watched(open_session(where), filters, limit)))
        return
    rows = ask(where, lambda conn: listings.list_runs(conn, filters, limit=limit))
    columns = ["id", "attachment", "state", "op", "relation", "key", "priority", "attempt", "steps"]
    columns += ["tokens", "cost", "created_at", "error"]
    print_rows(rows, columns, as_json=as_json, empty="no matching runs", screen=_SCREEN)


async def _watched(session: CliSession, filters: RunFilter, limit: int) -> None:
    with LiveTable(_SCREEN, empty="no matching runs") as table:
        async with session.connection() as conn:
            while True:
                most = min(limit, table.height)
                table.show(await listings.list_runs(conn, filters, limit=most))
                await asyncio.sleep(_PERIOD)


@click.command("show")
@click.argument("run", type=int)
@json_option()
@where_options
def show_(where: Where, run: int, *, as_json: bool) -> None:
    """Show RUN: its cause, its steps in order, and its result."""
    found = ask(where, lambda conn: listings.show_run(conn, run))
    if found is None:
        raise ConfigError(f"run {run} does not exist", hint="Use walagent runs to list runs.")
    if as_json:
        print_json(found)
    else:
        print_run(found)


_ENDED: Final = (RunState.FAILED, RunState.DEAD, RunState.CANCELLED)
_OPEN: Final = (
    RunState.PENDING,
    RunState.RUNNING,
    RunState.WAITING_APPROVAL,
    RunState.WAITING_RETRY,
    RunState.NEEDS_REVIEW,
)


@click.command("retry")
@click.argument("runs", metavar="[RUN]...", type=int, nargs=-1)
@run_filters(states=_ENDED)
@click.option("--same-version", is_flag=True, help="Keep the version of the agent.")
@click.option(
    "--fresh",
    is_flag=True,
    help="Begin with an empty transcript; refused while what the run wrote or sent is in effect.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_result
@where_options
def retry_(  # noqa: PLR0913 - as many as the command has options
    where: Where,
    runs: Sequence[int],
    filters: RunFilter,
    *,
    same_version: bool,
    fresh: bool,
    yes: bool,
) -> None:
    """Requeue failed, dead or cancelled runs; each continues after its last step.

    They get the current version of their agent, unless it was detached.  Without RUN, the options
    select the runs.
    """
    ids = chosen(where, runs, filters, _among(filters, _ENDED), yes=yes)
    if not ids:
        done("no matching runs", retried=[])
        return
    ask(where, lambda conn: operator.retry(conn, ids, same_version=same_version, fresh=fresh))
    done(f"{named(ids, 'run')} {'is' if len(ids) == 1 else 'are'} pending again", retried=ids)


@click.command("cancel")
@click.argument("runs", metavar="[RUN]...", type=int, nargs=-1)
@run_filters(states=_OPEN)
@click.option("--reason", help="Stored with the run.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_result
@where_options
def cancel_(
    where: Where, runs: Sequence[int], filters: RunFilter, reason: str | None, *, yes: bool
) -> None:
    """Cancel runs.  A running run stops within moments; its committed steps remain.

    Without RUN, the options select the runs.
    """
    ids = chosen(where, runs, filters, _among(filters, _OPEN), yes=yes)
    if not ids:
        done("no matching runs", cancelled=[])
        return
    ask(where, lambda conn: operator.cancel(conn, ids, reason))
    done(f"cancelled {named(ids, 'run')}", cancelled=ids)


_WAITING: Final = tuple(state for state in _OPEN if state is not RunState.RUNNING)
_URGENT: Final = 2000  # as agent.set_priority() has it


@click.command("prioritize")
@click.argument("runs", metavar="[RUN]...", type=int, nargs=-1)
@run_filters(states=_WAITING)
@click.option(
    "--to",
    "priority",
    required=True,
    type=click.IntRange(-_URGENT, _URGENT),
    metavar="PRIORITY",
    help="From -2000 to 2000; runs of the highest start first, 0 is usual.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_result
@where_options
def prioritize_(
    where: Where, runs: Sequence[int], filters: RunFilter, priority: int, *, yes: bool
) -> None:
    """Set the priority of runs that wait; what they wait for is raised with them.

    Without RUN, the options select the runs.
    """
    ids = chosen(where, runs, filters, _among(filters, _WAITING), yes=yes)
    if not ids:
        done("no matching runs", prioritized=[])
        return
    ask(where, lambda conn: operator.prioritize(conn, ids, priority))
    done(f"set the priority of {named(ids, 'run')} to {priority}", prioritized=ids)


def _among(filters: RunFilter, states: Sequence[RunState]) -> Finder:
    """Select runs in the states that the command changes."""
    given = filters if filters.states else replace(filters, states=tuple(states))

    async def find(conn: Connection) -> Sequence[int]:
        return sorted(row["id"] for row in await listings.list_runs(conn, given))

    return find
