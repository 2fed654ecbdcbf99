"""The slot and our promises: `gaps`, `check` and `drop-slot`."""

import asyncio
import sys

import click

from walagent.cli.exit_codes import FAILED
from walagent.cli.output import json_option, print_rows, say
from walagent.cli.session import Where, ask, open_session, where_options
from walagent.errors import ConfigError
from walagent.store import gaps, listings
from walagent.wal.slots import drop_slot, inspect_slot


@click.command("gaps")
@click.option("--all", "resolved", is_flag=True, help="Also those that have been dealt with.")
@click.option("--resolve", type=int, metavar="GAP", help="Say that this one has been dealt with.")
@click.option("--note", default="", help="What was done about it; goes with --resolve.")
@json_option()
@where_options
def gaps_(where: Where, resolve: int | None, note: str, *, resolved: bool, as_json: bool) -> None:
    """List stretches of WAL that were lost to us.

    What was committed there started no run.  `walagent resync` makes a new slot, and runs the
    agents on the rows that you choose.
    """
    if resolve is not None:
        if not note:
            raise ConfigError("--resolve needs --note: what was done about the gap?")
        if not ask(where, lambda conn: gaps.resolve_gap(conn, resolve, note)):
            raise ConfigError(f"there is no open gap {resolve}", hint="walagent gaps lists them")
        say(f"gap {resolve} is dealt with")
        return
    rows = ask(where, lambda conn: listings.list_gaps(conn, resolved=resolved))
    columns = ["id", "slot", "from_lsn", "to_lsn", "since", "reason", "found_at"]
    columns += ["resolution", "choices"] if resolved else []
    print_rows(rows, columns, as_json=as_json, empty="no gaps")


@click.command("check")
@json_option()
@where_options
def check_(where: Where, *, as_json: bool) -> None:
    """Look for promises that do not hold; ends with 1 if there are any."""
    rows = ask(where, listings.broken_invariants)
    print_rows(rows, ["rule", "detail"], as_json=as_json, empty="every promise holds")
    if rows:
        sys.exit(FAILED)


@click.command("drop-slot")
@click.option("--yes", is_flag=True, help="Do not ask.")
@where_options
def drop_slot_(where: Where, *, yes: bool) -> None:
    """Drop the slot, so that the server keeps no WAL for us any more.

    What is committed from now on, until there is a new slot, starts no run.
    """
    session = open_session(where)
    name = session.config.replication.slot
    if not yes:
        click.confirm(
            f"Drop slot {name}?  Changes will be lost until a new one is made.", abort=True
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
    say(f"dropped slot {name}; walagent resync makes a new one" if there else "no slot")
