"""The commands that say whether agents were right."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import click

from walagent.cli.runs.run_filters import since, since_option
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import cell, json_option, limit_option
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
from walagent.store.people import corrections
from walagent.store.people.corrections import Connection
from walagent.store.people.definitions import check_agent

_COLUMNS: Final = (
    "run", "agent", "attachment", "version", "relation", "key", "column", "kind", "wrote", "value",
    "omitted", "rows", "by_run", "corrected_by", "committed_at",
)  # fmt: skip


def _values(row: Row) -> Iterable[Below]:
    by = f", by run {row['by_run']}" if row["by_run"] is not None else ""
    by += f", by {cell(row['corrected_by'])}" if row["corrected_by"] is not None else ""
    if row["kind"] == "bulk":
        yield Below(f"{row['rows']} rows in one transaction{by}")
    elif row["omitted"]:
        yield Below(f"the values are not recorded{by}")
    elif row["kind"] == "deleted":
        yield Below(f"{_value(row['wrote'])} → the row was deleted{by}")
    else:
        yield Below(f"{_value(row['wrote'])} → {_value(row['value'])}{by}")


def _value(text: str | None) -> str:
    return "NULL" if text is None else cell(text)


_SCREEN: Final = Screen(
    [
        column("run"),
        column("agent"),
        column("version"),
        relation_column(),
        column("key"),
        column("column"),
        column("kind", least=WHOLE),
        column("committed_at", "age"),
    ],
    _values,
)


@click.command("corrections")
@click.option("--agent", metavar="NAME", help="Only of what this agent wrote.")
@click.option("--run", type=int, metavar="RUN", help="Only of what this run wrote.")
@click.option("--column", "name", metavar="NAME", help="Only of this column.")
@click.option(
    "--by", metavar="NAME", help="Only by this principal or login, as far as it is known."
)
@since_option("those committed")
@limit_option("corrections")
@json_option()
@where_options
def corrections_(  # noqa: PLR0913 - as many as the command has options
    where: Where,
    *,
    agent: str | None,
    run: int | None,
    name: str | None,
    by: str | None,
    start: datetime | timedelta | None,
    limit: int,
    as_json: bool,
) -> None:
    """List what people and applications changed of what agents wrote, the latest first."""

    async def read(conn: Connection) -> list[corrections.Found]:
        await check_agent(conn, agent)
        return await corrections.list_corrections(
            conn, agent=agent, column=name, run=run, by=by, since=start, limit=limit
        )

    rows = ask(where, read)
    print_rows(rows, _COLUMNS, as_json=as_json, empty="no matching corrections", screen=_SCREEN)


_OF_AGENTS: Final = (
    "agent", "attachment", "version", "column", "written", "corrected", "changed_in_bulk",
    "confirmed", "scored", "wrong", "accuracy",
)  # fmt: skip
_ACCURACY: Final = Screen(
    [
        column("agent"),
        column("version"),
        column("column"),
        column("written"),
        column("corrected"),
        Column("in bulk", lambda row: row["changed_in_bulk"]),
        column("confirmed"),
        column("scored"),
        column("wrong"),
        Column("accuracy", lambda row: f"{100 * row['accuracy']:.1f} %", WHOLE),
    ]
)


@click.command("accuracy")
@click.option("--agent", metavar="NAME", help="Only of this agent.")
@click.option(
    "--since",
    "start",
    callback=since,
    metavar="TIME",
    help="Only of what was written since TIME, in whole days: 7d, 2026-01-31.",
)
@json_option()
@where_options
def accuracy_(
    where: Where, *, agent: str | None, start: datetime | timedelta | None, as_json: bool
) -> None:
    """Show how much of what agents wrote others left as it was, by version and column."""

    async def read(conn: Connection) -> list[corrections.Found]:
        await check_agent(conn, agent)
        return await corrections.accuracy_of(conn, agent=agent, since=start)

    rows = ask(where, read)
    print_rows(rows, _OF_AGENTS, as_json=as_json, empty="nothing was written", screen=_ACCURACY)
