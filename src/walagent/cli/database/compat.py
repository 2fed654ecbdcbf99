"""`walagent database`: the names of other systems over walagent's tables."""

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_result
from walagent.store.install import compat


@click.command("install")
@json_result
@where_options
def install_(where: Where) -> None:
    """Create the schemas, or renew them, as the owner of the schema agent."""
    ask(where, compat.install_pgagentos)
    done("installed the schemas of pgagentos", installed="pgagentos")


@click.command("remove")
@json_result
@where_options
def remove_(where: Where) -> None:
    """Drop the schemas; tenants, agents and threads stay."""
    found = ask(where, compat.remove_pgagentos)
    done(f"removed {', '.join(found)}" if found else "nothing is installed", removed=found)
