"""`walagent agents backfills`: the progress of runs for rows that existed when attaching."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import click
from psycopg import AsyncConnection

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import json_option, say
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Column,
    Row,
    Screen,
    column,
    print_rows,
    relation_column,
    state_column,
)
from walagent.store.people import listings


def _error(row: Row) -> Iterable[Below]:
    if row["error"]:
        yield Below(row["error"], "red")


def _progress(row: Row) -> str:
    known = row["rows_total"]
    return f"{row['rows_done']} of {known}" if known else f"{row['rows_done']}"


_SCREEN: Final = Screen(
    [
        column("attachment"),
        relation_column(),
        column("after"),
        state_column(),
        Column("rows", _progress, least=WHOLE),
        column("runs"),
        column("started_at"),
        column("finished_at"),
    ],
    _error,
)
_POLL = 0.5  # seconds between polls; a chunk takes about as long


@click.command("backfills")
@click.option("--wait", is_flag=True, help="Show progress bars until all are complete.")
@json_option()
@where_options
def backfills_(where: Where, *, wait: bool, as_json: bool) -> None:
    """Show the progress of backfills.

    The total is PostgreSQL's estimate until the backfill is complete.
    """
    rows = ask(where, _follow if wait else listings.list_backfills)
    columns = ["attachment", "relation", "after", "state", "rows_done", "rows_total", "runs"]
    columns += ["started_at", "finished_at"]
    columns += ["error"] if any(row["error"] for row in rows) else []
    empty = "no backfills; attach with backfill=true to start one"
    print_rows(rows, columns, as_json=as_json, empty=empty, screen=_SCREEN)


async def _follow(conn: AsyncConnection[Any]) -> list[listings.Found]:
    """Show progress bars on stderr; return the rows when every backfill has ended."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    warned = False
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars: dict[tuple[str, int], Any] = {}
        while True:
            rows = await listings.list_backfills(conn)
            for row in rows:
                total = max(row["rows_total"] or 0, row["rows_done"])
                which = row["attachment"], row["generation"]
                if which not in bars:
                    bars[which] = progress.add_task(row["attachment"], total=total or None)
                progress.update(bars[which], completed=row["rows_done"], total=total or None)
            if all(row["state"] not in {"pending", "running"} for row in rows):
                return rows
            if not warned and all(row["state"] != "running" for row in rows):
                warned = True
                say("no backfill has started; check that walagent run is running")
            await asyncio.sleep(_POLL)
