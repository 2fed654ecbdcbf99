"""The command that adds up what model calls used."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import click

from walagent.cli.runs.run_filters import since_option
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import json_option
from walagent.cli.terminal.table import (
    Below,
    Column,
    Row,
    Screen,
    column,
    dollars_column,
    print_rows,
)
from walagent.store.people import listings

_BY: Final = ("agent", "model", "day")


def _unknown(row: Row) -> Iterable[Below]:
    if row["unknown"]:
        yield Below(f"{row['unknown']} of {row['calls']} calls have no known cost", "yellow")


def _columns(by: Iterable[str]) -> list[Column]:
    return [
        *(column(name) for name in by),
        column("runs"),
        column("calls"),
        column("input"),
        column("cached"),
        column("cache_write", "written"),
        column("output"),
        dollars_column("cost", "cost"),
        dollars_column("per_run", "per run"),
    ]


@click.command("cost")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(_BY),
    default=("agent", "model"),
    help="How calls are grouped; repeatable.  Days are in UTC.  [default: agent, model]",
)
@since_option("calls")
@json_option()
@where_options
def cost_(
    where: Where, by: tuple[str, ...], start: datetime | timedelta | None, *, as_json: bool
) -> None:
    """Add up tokens and cost of model calls, of the runs that are kept."""
    rows = ask(where, lambda conn: listings.list_costs(conn, by, start))
    groups = [name for name in ("day", "agent", "model") if name in by]
    columns = [*groups, "runs", "calls", "input", "cached", "cache_write", "output", "cost"]
    screen = Screen(_columns(groups), _unknown)
    columns += ["per_run", "unknown"]
    kept = [{name: row[name] for name in columns} for row in rows]
    print_rows(kept, columns, as_json=as_json, empty="no model calls", screen=screen)
