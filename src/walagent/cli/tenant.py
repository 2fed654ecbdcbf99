"""`walagent tenant`: organisations whose agents, rows and people are kept apart."""

import click

from walagent.cli.output import json_option, print_json, say
from walagent.cli.session import Where, ask, where_options
from walagent.cli.table import print_rows
from walagent.store import tenancy


@click.group("tenant")
def tenant_() -> None:
    """List and change tenants, which are kept apart from each other.

    \b
      list     tenants
      add      create one
      disable  refuse its principals and start none of its runs
      enable   undo this
    """  # noqa: D301 - click's mark for lines that are not wrapped


@tenant_.command("list")
@json_option()
@where_options
def list_(where: Where, *, as_json: bool) -> None:
    """List tenants."""
    rows = ask(where, tenancy.list_tenants)
    columns = ["name", "display_name", "active", "principals", "created_at"]
    print_rows(rows, columns, as_json=as_json, empty="no tenants")


@tenant_.command("add")
@click.argument("name")
@click.option("--display-name", default="", metavar="TEXT", help="Name for people.")
@json_option()
@where_options
def add(where: Where, name: str, display_name: str, *, as_json: bool) -> None:
    """Create the tenant NAME."""
    identifier = ask(where, lambda conn: tenancy.create_tenant(conn, name, display_name))
    if as_json:
        print_json({"name": name, "id": str(identifier)})
    else:
        say(f"created tenant {name}")


@tenant_.command("disable")
@click.argument("name")
@where_options
def disable(where: Where, name: str) -> None:
    """Refuse the principals of NAME, and start none of its runs, from now on."""
    ask(where, lambda conn: tenancy.enable_tenant(conn, name, active=False))
    say(f"disabled tenant {name}")


@tenant_.command("enable")
@click.argument("name")
@where_options
def enable(where: Where, name: str) -> None:
    """Let the principals of a disabled tenant act, and its runs start, again."""
    ask(where, lambda conn: tenancy.enable_tenant(conn, name, active=True))
    say(f"enabled tenant {name}")
