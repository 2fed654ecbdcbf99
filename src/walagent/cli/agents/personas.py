"""`walagent agents personas`: who agents are."""

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import json_option, print_json
from walagent.cli.terminal.table import print_rows
from walagent.store.people import definitions


@click.command("list")
@json_option()
@where_options
def list_(where: Where, *, as_json: bool) -> None:
    """List personas."""
    rows = ask(where, lambda conn: definitions.list_all(conn, "personas"))
    print_rows(
        rows,
        ["name", "version", "model", "rules", "agents", "updated_at"],
        as_json=as_json,
        empty="no personas",
    )


@click.command("show")
@click.argument("name")
@json_option()
@where_options
def show_(where: Where, name: str, *, as_json: bool) -> None:
    """Show a persona."""
    row = ask(where, lambda conn: definitions.show(conn, "persona", name))
    if row is None:
        raise definitions.unknown("persona", name)
    if as_json:
        print_json(row)
        return
    parts = [{"column": key, "value": value} for key, value in row.items() if value is not None]
    print_rows(parts, ["column", "value"], as_json=False, empty="")


@click.command("versions")
@click.argument("name")
@json_option()
@where_options
def versions_(where: Where, name: str, *, as_json: bool) -> None:
    """List the versions of a persona, the latest first."""
    rows = ask(where, lambda conn: definitions.versions(conn, "persona", name))
    print_rows(rows, ["version", "made_by", "made_at", "definition"], as_json=as_json, empty="")
