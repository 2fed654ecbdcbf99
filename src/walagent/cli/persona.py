"""`walagent persona`: who agents are."""

import click

from walagent.cli.output import json_option, print_json
from walagent.cli.session import Where, ask, where_options
from walagent.cli.table import print_rows
from walagent.store.people import definitions


@click.group("persona")
def persona_() -> None:
    """List personas and their versions.

    \b
      list      personas
      show      one persona
      versions  its versions, the latest first
    """  # noqa: D301 - click's mark for lines that are not wrapped


@persona_.command("list")
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


@persona_.command("show")
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


@persona_.command("versions")
@click.argument("name")
@json_option()
@where_options
def versions_(where: Where, name: str, *, as_json: bool) -> None:
    """List the versions of a persona, the latest first."""
    rows = ask(where, lambda conn: definitions.versions(conn, "persona", name))
    print_rows(rows, ["version", "made_by", "made_at", "definition"], as_json=as_json, empty="")
