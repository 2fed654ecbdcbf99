"""`walagent agents tools`: tools, their versions, and who may have them called."""

from typing import Final

import click

from walagent.cli.definitions import listing, showing, versions
from walagent.cli.json_options import json_object
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_result, say
from walagent.errors import ConfigError
from walagent.store.people import definitions

list_ = listing("tools", ["name", "kind", "effect", "risk", "version", "enabled", "target"])
show_ = showing("tool")
versions_ = versions("tool", ["version", "enabled", "made_at", "definition"])

_ROLES: Final = click.Choice(["admin", "developer", "approver", "auditor", "agent", "viewer"])


@click.command("enable")
@click.argument("name")
@click.option("--version", type=click.IntRange(1), help="Only this version.")
@json_result
@where_options
def enable_(where: Where, name: str, version: int | None) -> None:
    """Allow the calls of a tool again."""
    ask(where, lambda conn: definitions.enable_tool(conn, name, version, enabled=True))
    done(f"enabled {name}", enabled=name)


@click.command("disable")
@click.argument("name")
@click.option("--version", type=click.IntRange(1), help="Only this version.")
@json_result
@where_options
def disable_(where: Where, name: str, version: int | None) -> None:
    """Refuse the calls of a tool, also those of runs in progress."""
    ask(where, lambda conn: definitions.enable_tool(conn, name, version, enabled=False))
    done(f"disabled {name}", disabled=name)


@click.command("grant")
@click.argument("role", type=_ROLES)
@click.argument("name")
@click.option("--allowed", metavar="JSON", help="Only these arguments: true, or a list of values.")
@json_result
@where_options
def grant_(where: Where, role: str, name: str, allowed: str | None) -> None:
    """Let agents call a tool for principals with ROLE."""
    given = None if allowed is None else json_object(allowed, "--allowed")
    if ask(where, lambda conn: definitions.grant_tool(conn, role, name, given)):
        say("warning: this is the first grant: from now on, each call needs one, or an admin")
    done(f"granted {name} to {role}", granted=name, role=role)


@click.command("deny")
@click.argument("role", type=_ROLES)
@click.argument("name")
@click.option("--denied", metavar="JSON", help="Only these arguments: true, or a list of values.")
@json_result
@where_options
def deny_(where: Where, role: str, name: str, denied: str | None) -> None:
    """Withdraw the grant of a tool from ROLE, or deny arguments of it."""
    given = None if denied is None else json_object(denied, "--denied")
    if not ask(where, lambda conn: definitions.deny_tool(conn, role, name, given)):
        raise ConfigError(f'role "{role}" has no grant for "{name}"')
    done(f"denied {name} to {role}", denied=name, role=role)
