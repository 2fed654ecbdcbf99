"""`walagent tenants policies`: what a tenant allows where agents act."""

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_option, json_result, print_json
from walagent.cli.terminal.table import print_rows
from walagent.store.people import definitions


@click.command("list")
@json_option()
@where_options
def list_(where: Where, *, as_json: bool) -> None:
    """List policies."""
    rows = ask(where, lambda conn: definitions.list_all(conn, "policies"))
    print_rows(
        rows,
        ["name", "point", "phase", "action", "priority", "enabled", "condition"],
        as_json=as_json,
        empty="no policies",
    )


@click.command("show")
@click.argument("name")
@json_option()
@where_options
def show_(where: Where, name: str, *, as_json: bool) -> None:
    """Show a policy."""
    row = ask(where, lambda conn: definitions.show(conn, "policy", name))
    if row is None:
        raise definitions.unknown("policy", name)
    if as_json:
        print_json(row)
        return
    parts = [{"column": key, "value": value} for key, value in row.items() if value is not None]
    print_rows(parts, ["column", "value"], as_json=False, empty="")


@click.command("enable")
@click.argument("name")
@json_result
@where_options
def enable_(where: Where, name: str) -> None:
    """Let a policy apply."""
    _set(where, name, enabled=True)


@click.command("disable")
@click.argument("name")
@json_result
@where_options
def disable_(where: Where, name: str) -> None:
    """Let a policy not apply."""
    _set(where, name, enabled=False)


def _set(where: Where, name: str, *, enabled: bool) -> None:
    if not ask(where, lambda conn: definitions.enable_policy(conn, name, enabled=enabled)):
        raise definitions.unknown("policy", name)
    what = "enabled" if enabled else "disabled"
    done(f"{what} {name}", **{what: name})
