"""`walagent tenants principals`: people, agents and services of a tenant, and their roles."""

from datetime import datetime

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.tenants.options import expires_option, tenant_option
from walagent.cli.terminal.output import done, json_option, json_result, print_json, say
from walagent.cli.terminal.table import print_rows
from walagent.store.people import tenancy

_ROLES = ("admin", "developer", "approver", "auditor", "agent", "viewer")


@click.command("list")
@tenant_option()
@json_option()
@where_options
def list_(where: Where, tenant: str | None, *, as_json: bool) -> None:
    """List principals with the roles they have now."""
    rows = ask(where, lambda conn: tenancy.list_principals(conn, tenant))
    columns = ["tenant", "name", "kind", "login", "active", "roles", "expires_at"]
    print_rows(rows, columns, as_json=as_json, empty="no principals")


@click.command("add")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["user", "agent", "service"]),
    default="user",
    show_default=True,
    help="What it is.",
)
@click.option("--login", metavar="ROLE", help="Database role whose sessions act as it.")
@click.option("--display-name", default="", metavar="TEXT", help="Name for people.")
@click.option("--email", metavar="ADDRESS", help="Address for notifications.")
@tenant_option()
@json_option()
@where_options
def add_(  # noqa: PLR0913 - what a principal has
    where: Where,
    name: str,
    *,
    kind: str,
    login: str | None,
    display_name: str,
    email: str | None,
    tenant: str | None,
    as_json: bool,
) -> None:
    """Create the principal NAME."""
    identifier = ask(
        where,
        lambda conn: tenancy.create_principal(
            conn,
            name,
            kind=kind,
            login=login,
            display_name=display_name,
            email=email,
            tenant=tenant,
        ),
    )
    if as_json:
        print_json({"name": name, "id": str(identifier)})
    else:
        say(f"created principal {name}")


@click.command("disable")
@click.argument("name")
@tenant_option()
@json_result
@where_options
def disable_(where: Where, name: str, tenant: str | None) -> None:
    """Refuse NAME, its login and its tokens from now on."""
    ask(where, lambda conn: tenancy.enable_principal(conn, name, active=False, tenant=tenant))
    done(f"disabled principal {name}", disabled=name)


@click.command("enable")
@click.argument("name")
@tenant_option()
@json_result
@where_options
def enable_(where: Where, name: str, tenant: str | None) -> None:
    """Let a disabled principal act again."""
    ask(where, lambda conn: tenancy.enable_principal(conn, name, active=True, tenant=tenant))
    done(f"enabled principal {name}", enabled=name)


@click.command("grant")
@click.argument("name")
@click.argument("role", type=click.Choice(_ROLES))
@expires_option
@tenant_option()
@json_result
@where_options
def grant_(
    where: Where, name: str, role: str, expires_at: datetime | None, tenant: str | None
) -> None:
    """Grant NAME a role in its tenant, or change when it ends."""
    ask(
        where,
        lambda conn: tenancy.grant_role(conn, name, role, expires_at=expires_at, tenant=tenant),
    )
    done(f"granted {name} the role {role}", granted=role, principal=name)


@click.command("revoke")
@click.argument("name")
@click.argument("role", type=click.Choice(_ROLES))
@tenant_option()
@json_result
@where_options
def revoke_(where: Where, name: str, role: str, tenant: str | None) -> None:
    """Revoke a role of NAME."""
    ask(where, lambda conn: tenancy.revoke_role(conn, name, role, tenant=tenant))
    done(f"revoked the role {role} of {name}", revoked=role, principal=name)
