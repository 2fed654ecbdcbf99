"""`walagent tenants tokens`: tokens of principals."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.tenants.options import expires_option, tenant_option
from walagent.cli.terminal.output import done, json_option, json_result, print_json, say
from walagent.cli.terminal.table import print_rows
from walagent.store.people import tenancy

_SCOPES = ("read", "post", "approve", "develop", "admin")


@click.command("list")
@tenant_option()
@json_option()
@where_options
def list_(where: Where, tenant: str | None, *, as_json: bool) -> None:
    """List tokens: an admin sees all of its tenant, others their own."""
    rows = ask(where, lambda conn: tenancy.list_tokens(conn, tenant))
    columns = ["tenant", "id", "principal", "label", "scopes", "state", "created_at", "expires_at"]
    print_rows(rows, columns, as_json=as_json, empty="no tokens")


@click.command("create")
@click.argument("principal")
@click.option("--label", default="", metavar="TEXT", help="What it is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(_SCOPES),
    metavar="SCOPE",
    help=f"What it can be used for; repeatable: {', '.join(_SCOPES)}.  [default: all]",
)
@expires_option
@tenant_option()
@json_option()
@where_options
def create_(  # noqa: PLR0913 - what a token has
    where: Where,
    principal: str,
    *,
    label: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    tenant: str | None,
    as_json: bool,
) -> None:
    """Create a token of PRINCIPAL and print it.  It cannot be shown again."""
    identifier, token = ask(
        where,
        lambda conn: tenancy.create_token(
            conn, principal, label=label, scopes=scopes, expires_at=expires_at, tenant=tenant
        ),
    )
    if as_json:
        print_json({"id": str(identifier), "token": token})
        return
    click.echo(token)
    say(f"created token {identifier} of {principal}; it is not shown again")


@click.command("revoke")
@click.argument("token_id", metavar="ID", type=click.UUID)
@json_result
@where_options
def revoke_(where: Where, token_id: UUID) -> None:
    """Revoke the token with ID."""
    ask(where, lambda conn: tenancy.revoke_token(conn, token_id))
    done(f"revoked token {token_id}", revoked=token_id)
