"""`walagent wal gaps`, `check` and `drop-slot`."""

import asyncio
import sys
from collections.abc import Iterable
from typing import Final

import click

from walagent.cli.exit_codes import FAILED
from walagent.cli.session import (
    CliSession,
    Where,
    ask,
    open_session,
    slot_option,
    where_options,
)
from walagent.cli.terminal.output import done, json_option, json_result, print_json, say
from walagent.cli.terminal.table import Below, Row, Screen, column, print_rows
from walagent.errors import ConfigError
from walagent.store import gaps
from walagent.store.people import listings
from walagent.wal.slots import drop_slot, inspect_slot

_CHECKED_RUNS = 100_000  # whose steps are read without --all


def _gap_details(row: Row) -> Iterable[Below]:
    yield Below(row["reason"], whole=True)
    if row["resolution"]:
        choices = f" ({', '.join(row['choices'])})" if row["choices"] else ""
        yield Below(f"resolved: {row['resolution']}{choices}", whole=True)


def _detail(row: Row) -> Iterable[Below]:
    yield Below(row["detail"], whole=True)


_GAPS: Final = Screen(
    [
        column("id"),
        column("slot"),
        column("from_lsn", "from"),
        column("to_lsn", "to"),
        column("since"),
        column("found_at"),
    ],
    _gap_details,
)
_RULES: Final = Screen([column("rule")], _detail)


@click.command("gaps")
@click.option("--all", "resolved", is_flag=True, help="Also list resolved gaps.")
@click.option("--resolve", type=int, metavar="GAP", help="Mark this gap as resolved.")
@click.option("--note", default="", help="Resolution; required with --resolve.")
@json_option()
@where_options
def gaps_(where: Where, resolve: int | None, note: str, *, resolved: bool, as_json: bool) -> None:
    """List gaps: ranges of WAL that were lost.

    Changes committed in a gap started no run.  To create a new slot and recover their rows, use
    walagent wal resync.
    """
    if resolve is not None:
        if not note:
            raise ConfigError(
                "--resolve requires --note", hint="Use --note to describe what was done."
            )
        if not ask(where, lambda conn: gaps.resolve_gap(conn, resolve, note)):
            raise ConfigError(
                f"gap {resolve} does not exist or is resolved",
                hint="Use walagent wal gaps to list gaps.",
            )
        if as_json:
            print_json({"resolved": resolve})
        else:
            say(f"gap {resolve} is resolved")
        return
    rows = ask(where, lambda conn: listings.list_gaps(conn, resolved=resolved))
    columns = ["id", "slot", "from_lsn", "to_lsn", "since", "reason", "found_at"]
    columns += ["resolution", "choices"] if resolved else []
    empty = "no gaps"
    print_rows(rows, columns, as_json=as_json, empty=empty, screen=_GAPS)


@click.command("check")
@click.option("--all", "whole", is_flag=True, help="Read the steps of all runs.")
@json_option()
@where_options
def check_(where: Where, *, whole: bool, as_json: bool) -> None:
    """Check the engine's invariants; the exit code is 1 if one is violated.

    Of runs, all rows are checked; of steps, those of the latest 100,000 runs.
    """
    latest = None if whole else _CHECKED_RUNS
    rows = ask(where, lambda conn: listings.broken_invariants(conn, latest=latest))
    print_rows(
        rows, ["rule", "detail"], as_json=as_json, empty="all invariants hold", screen=_RULES
    )
    if rows:
        sys.exit(FAILED)


async def _with_slot(session: CliSession) -> CliSession:
    async with session.connection() as conn:
        return await session.with_slot(conn)


@click.command("drop-slot")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_result
@where_options
@slot_option
def drop_slot_(where: Where, *, yes: bool) -> None:
    """Drop the replication slot; the server no longer retains WAL for walagent.

    Changes committed until a new slot exists start no run.
    """
    session = asyncio.run(_with_slot(open_session(where)))
    name = session.config.replication.slot
    if not yes:
        click.confirm(
            f"Drop slot {name}?  Changes start no run until a new slot is created.",
            abort=True,
            err=True,
        )

    async def dropped() -> bool:
        async with (
            session.places() as places,
            session.connect(places, replication=True) as conn,
        ):
            there = await inspect_slot(conn, name) is not None
            await drop_slot(conn, name)
            return there

    there = asyncio.run(dropped())
    text = f"dropped slot {name}; walagent wal resync creates a new one"
    done(text if there else f"slot {name} does not exist", dropped=[name] if there else [])
