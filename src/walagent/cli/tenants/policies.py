"""`walagent tenants policies`: what a tenant allows where agents act."""

import click

from walagent.cli.definitions import listing, showing
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_result
from walagent.store.people import definitions

list_ = listing(
    "policies", ["name", "point", "phase", "action", "priority", "enabled", "condition"]
)
show_ = showing("policy")


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
