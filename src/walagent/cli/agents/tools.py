"""`walagent agents tools`: tools, their versions, and who may have them called."""

import json
from typing import Any, Final, cast

import click

from walagent.cli.definitions import listing, showing, versions
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
    given = _object(allowed)
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
    if not ask(where, lambda conn: definitions.deny_tool(conn, role, name, _object(denied))):
        raise ConfigError(f'role "{role}" has no grant for "{name}"')
    done(f"denied {name} to {role}", denied=name, role=role)


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"expected a JSON object: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError("expected a JSON object of arguments")
    return cast("dict[str, Any]", value)
