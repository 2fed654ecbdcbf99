"""The command that takes back what runs changed."""

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import click

from walagent.cli.exit_codes import FAILED
from walagent.cli.runs.many import chosen
from walagent.cli.runs.run_filters import since_option
from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.cli.terminal.output import cell, json_result, print_json, say, wants_json
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Column,
    Row,
    Screen,
    column,
    print_rows,
    relation_column,
)
from walagent.errors import ConfigError, PreconditionError
from walagent.store.people import changes
from walagent.store.people.changes import Connection, Reversal
from walagent.store.people.definitions import check_agent
from walagent.store.people.run_filter import RunFilter

_POLL: Final = 0.2
_PATIENCE: Final = 120.0  # seconds to wait for the end of one


@dataclass(frozen=True, slots=True)
class _How:
    """How runs are taken back."""

    dry_run: bool
    only_unchanged: bool


def _below(row: Row) -> Iterable[Below]:
    if row["reason"]:
        yield Below(row["reason"], "red", whole=True)
    columns: Mapping[str, Sequence[object]] = row["columns"] or {}
    kept: Mapping[str, Sequence[object]] = row["kept"] or {}
    for name, (wrote, now) in columns.items():
        yield Below(f"{name}: the run wrote {_value(wrote)}, now {_value(now)}")
    for name, (was, now) in kept.items():
        yield Below(f"{name}: was {_value(was)}, a trigger sets {_value(now)}")
    if row["omitted"]:
        yield Below(f"not known, and left: {', '.join(row['omitted'])}")


def _value(value: object) -> str:
    return "NULL" if value is None else cell(value)


_SCREEN: Final = Screen(
    [
        column("run"),
        column("step"),
        column("op", least=WHOLE),
        relation_column(),
        column("key"),
        Column("outcome", lambda row: row["outcome"], WHOLE),
    ],
    _below,
)
_LEFT: Final = {
    "outside": "acted outside the database",
    "unseen": "has no change that was recorded",
}
_COLUMNS: Final = ("run", "step", "op", "relation", "key", "outcome", "reason")


@click.command("revert")
@click.argument("runs", metavar="[RUN]...", type=int, nargs=-1)
@click.option("--agent", metavar="NAME", help="Only runs of this agent.")
@click.option("--version", type=int, metavar="N", help="Only runs of this version of it.")
@since_option("runs that changed a row")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option(
    "--only-unchanged", is_flag=True, help="Leave out steps with a row that cannot be taken back."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_result
@where_options
def revert_(  # noqa: PLR0913 - as many as the command has options
    where: Where,
    runs: Sequence[int],
    *,
    agent: str | None,
    version: int | None,
    start: datetime | timedelta | None,
    dry_run: bool,
    only_unchanged: bool,
    yes: bool,
) -> None:
    """Take back what runs changed, each in one transaction as its role, the latest first.

    A row is restored if its columns hold what the run wrote.  If one is not, nothing of its run is
    taken back, or with --only-unchanged, nothing of its step.  Without RUN, the options select the
    runs.  Exits with code 1 if something was left.
    """
    if version is not None and agent is None:
        raise ConfigError("--version requires --agent", hint="Use --agent to name the agent.")
    reversal = Reversal(agent, version, start)

    async def find(conn: Connection) -> Sequence[int]:
        await check_agent(conn, agent)
        return await changes.runs_to_revert(conn, reversal)

    ids = chosen(where, runs, RunFilter(), find, yes=yes or dry_run, more=not reversal.is_empty)
    how = _How(dry_run, only_unchanged)
    ended = asyncio.run(_revert_all(open_session(where), sorted(ids, reverse=True), how))
    if wants_json():
        print_json(ended)
    else:
        _print(ended)
    if any(each["state"] != "succeeded" or not each["done"] for each in ended):
        sys.exit(FAILED)


def _print(ended: Sequence[Mapping[str, Any]]) -> None:
    rows = [row for each in ended for row in each["rows"]]
    if rows or not ended:
        print_rows(rows, _COLUMNS, as_json=False, empty="no matching runs", screen=_SCREEN)
    for each in ended:
        say(each["result"], color=None if each["done"] else "red")
        for name, why in _LEFT.items():
            for call in each[name]:
                of = f"step {call['step']} of run {each['run']} ({call['name']})"
                say(f"not taken back: {of} {why}")


async def _revert_all(
    session: CliSession, ids: Iterable[int], how: _How
) -> list[Mapping[str, Any]]:
    """Take runs back one after the other: what a later run wrote is refused to an earlier one."""
    async with session.connection() as conn:
        return [await _revert(conn, run, how) for run in ids]


async def _revert(conn: Connection, run: int, how: _How) -> Mapping[str, Any]:
    number = await changes.revert(conn, run, dry_run=how.dry_run, only_unchanged=how.only_unchanged)
    until = time.monotonic() + _PATIENCE
    while (found := await changes.reverted(conn, number)) is None:
        if time.monotonic() > until:
            raise PreconditionError(
                f"run {number}, which takes back run {run}, has not ended in {_PATIENCE:g} s",
                hint=f"Start walagent run, and see walagent show {number}.",
            )
        await asyncio.sleep(_POLL)
    return found
