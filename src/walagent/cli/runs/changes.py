"""The command that lists the rows that agents changed."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import click

from walagent.cli.runs.run_filters import since_option
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
from walagent.store.people import changes
from walagent.store.people.changes import ChangeFilter, Connection
from walagent.store.people.definitions import check_agent

_UNKNOWN: Final = "not known"


def _values(row: Row) -> Iterable[Below]:
    if row["op"] == "more":
        yield Below(
            f"{row['rows']} further changes of this transaction were not recorded", "yellow"
        )
    before: Mapping[str, Any] = row["before"] or {}
    after: Mapping[str, Any] = row["after"] or {}
    for name in _shown(row, before, after):
        if row["op"] == "update":
            yield Below(f"{name}: {_value(before, name)} → {_value(after, name)}")
        else:
            yield Below(f"{name}: {_value(after or before, name)}")


def _shown(row: Row, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    """Name the columns that changed or, if that is not known, might have."""
    if row["columns"] is not None:
        return [name for name in row["columns"] if name in before or name in after]
    return sorted({*before, *after})


def _value(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return _UNKNOWN
    return "NULL" if values[name] is None else cell(values[name])


_SCREEN: Final = Screen(
    [
        column("run"),
        column("step"),
        column("agent"),
        column("tool"),
        Column("by", lambda row: row["source"], WHOLE),
        column("op", least=WHOLE),
        relation_column(),
        column("key"),
        column("committed_at", "age"),
    ],
    _values,
)
_COLUMNS: Final = (
    "run", "step", "agent", "attachment", "version", "tool", "op", "source", "relation", "key",
    "columns", "before", "after", "rows", "committed_at",
)  # fmt: skip


@click.command("changes")
@click.option("--agent", metavar="NAME", help="Only changes by this agent.")
@click.option("--run", type=int, metavar="RUN", help="Only changes by this run.")
@click.option("--table", metavar="TABLE", help="Only changes of this table.")
@click.option("--key", help="Only changes of the row with this primary key.")
@click.option("--column", "name", metavar="NAME", help="Only changes that can concern this column.")
@since_option("changes committed")
@limit_option("changes")
@json_option()
@where_options
def changes_(  # noqa: PLR0913 - as many as the command has options
    where: Where,
    *,
    agent: str | None,
    run: int | None,
    table: str | None,
    key: str | None,
    name: str | None,
    start: datetime | timedelta | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the rows that agents changed, with the values before and after, the latest first.

    Of tables that are published: attached ones, and those that live rows follow.
    """
    filters = ChangeFilter(agent, run, table, key, name, start)

    async def read(conn: Connection) -> list[changes.Found]:
        await check_agent(conn, agent)
        return await changes.list_changes(conn, filters, limit=limit)

    rows = ask(where, read)
    print_rows(rows, _COLUMNS, as_json=as_json, empty="no matching changes", screen=_SCREEN)
