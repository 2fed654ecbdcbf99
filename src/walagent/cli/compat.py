"""`walagent compat`: the names of other systems over walagent's tables."""

import click

from walagent.cli.output import done, json_result
from walagent.cli.session import Where, ask, where_options
from walagent.store.install import compat


@click.group("compat")
def compat_() -> None:
    """Let programs written for another system use walagent."""


@compat_.group("pgagentos")
def pgagentos() -> None:
    """The schemas aos_* of pgAgentOS, as views and functions."""


@pgagentos.command("install")
@json_result
@where_options
def install(where: Where) -> None:
    """Create the schemas, or renew them, as the owner of the schema agent."""
    ask(where, compat.install_pgagentos)
    done("installed the schemas of pgagentos", installed="pgagentos")


@pgagentos.command("remove")
@json_result
@where_options
def remove(where: Where) -> None:
    """Drop the schemas; tenants, agents and threads stay."""
    found = ask(where, compat.remove_pgagentos)
    done(f"removed {', '.join(found)}" if found else "nothing is installed", removed=found)
