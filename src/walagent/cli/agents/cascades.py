"""The command that says what the models of a cascade decided."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import click

from walagent.cli.runs.run_filters import since_option
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import json_option
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Column,
    Row,
    Screen,
    column,
    dollars_column,
    print_rows,
)
from walagent.store.people import cascades
from walagent.store.people.cascades import Connection
from walagent.store.people.definitions import check_agent

_COLUMNS: Final = (
    "agent", "stage", "model", "asked", "decided", "share", "cost", "controlled", "agreed",
    "agreement", "control_cost", "corrected",
)  # fmt: skip


def _control(row: Row) -> Iterable[Below]:
    if row["controlled"]:
        of = f"{row['agreed']} of {row['controlled']} agree with the last model"
        yield Below(f"control: {of}", "dim" if row["agreed"] == row["controlled"] else "yellow")


def _percent(name: str) -> Column:
    def shown(row: Row) -> str | None:
        return None if row[name] is None else f"{100 * row[name]:.1f} %"

    return Column(name, shown, WHOLE)


_SCREEN: Final = Screen(
    [
        column("agent"),
        column("stage", least=WHOLE),
        column("model"),
        column("asked", least=WHOLE),
        column("decided", least=WHOLE),
        _percent("share"),
        dollars_column("cost", "cost"),
        _percent("agreement"),
        column("corrected"),
    ],
    _control,
)


@click.command("cascade")
@click.argument("agent", required=False)
@since_option("of runs that ended")
@json_option()
@where_options
def cascade_(
    where: Where, agent: str | None, *, start: datetime | timedelta | None, as_json: bool
) -> None:
    """Show what each model of a cascade decided, of the runs that succeeded and are kept.

    Of a control sample, it shows how often the last model agrees: with the same tools and
    arguments.
    """

    async def read(conn: Connection) -> list[dict[str, Any]]:
        await check_agent(conn, agent)
        return await cascades.list_cascades(conn, agent=agent, since=start)

    rows = ask(where, read)
    print_rows(
        rows, _COLUMNS, as_json=as_json, empty="no run of a cascade has succeeded", screen=_SCREEN
    )
