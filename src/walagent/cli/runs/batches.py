"""The command that lists batches of calls."""

from collections.abc import Iterable
from typing import Final

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import json_option, limit_option
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Row,
    Screen,
    column,
    dollars_column,
    print_rows,
)
from walagent.store.people import listings

_COLUMNS: Final = (
    "id", "tenant", "model", "state", "provider_id", "items", "answered", "unanswered", "unused",
    "requeued", "cost", "unused_cost", "attempts", "error", "formed_at", "submitted_at", "ended_at",
)  # fmt: skip


def _why(row: Row) -> Iterable[Below]:
    if row["error"]:
        yield Below(str(row["error"]), "yellow")
    if row["requeued"]:
        yield Below(f"{row['requeued']} calls wait for smaller batches", "yellow")
    if row["unused"]:
        yield Below(f"{row['unused']} replies are charged and not used", "yellow")


_SCREEN: Final = Screen(
    [
        column("id"),
        column("model"),
        column("state", least=WHOLE),
        column("items", "calls"),
        column("answered"),
        column("unanswered"),
        dollars_column("cost", "cost"),
        column("formed_at", "age"),
    ],
    _why,
)


@click.command("batches")
@limit_option("batches")
@json_option()
@where_options
def batches_(where: Where, *, limit: int, as_json: bool) -> None:
    """List batches of calls of the tier batch, newest first."""
    rows = ask(where, lambda conn: listings.list_batches(conn, limit))
    print_rows(rows, _COLUMNS, as_json=as_json, empty="no batches", screen=_SCREEN)
