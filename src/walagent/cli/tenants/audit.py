"""`walagent tenants audit`: who changed, decided or was refused what."""

import re
import sys
from typing import Any, Final

import click

from walagent.cli.exit_codes import FAILED
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import json_option, limit_option
from walagent.cli.terminal.table import Screen, column, print_rows
from walagent.errors import ConfigError
from walagent.store.people import audit
from walagent.store.people.audit import Connection, Head
from walagent.store.people.tenancy import check_tenant

_COLUMNS: Final = ["tenant", "number", "at", "principal", "login", "action", "object", "detail"]
_SCREEN: Final = Screen(
    [
        column("number"),
        column("tenant"),
        column("at", "age"),
        column("principal"),
        column("action"),
        column("object"),
    ]
)
_VERIFIED: Final = ["tenant", "rows", "head", "bad_row", "reason"]
_HEAD: Final = re.compile(r"(\d{1,18}):([0-9a-f]{64})")


def _head(ctx: click.Context, param: click.Parameter, text: str | None) -> Head | None:
    if text is None:
        return None
    if (found := _HEAD.fullmatch(text)) is None:
        raise click.BadParameter(f"{text!r} is not NUMBER:DIGEST, with 64 hex digits", ctx, param)
    return Head("", int(found[1]), found[2])


@click.command("list")
@click.option("--tenant", help="Only of this tenant.")
@click.option("--action", help="Only this: a noun such as approval, or noun.verb.")
@click.option("--principal", help="Only what this principal did.")
@limit_option("entries", default=100, most=100_000)
@json_option()
@where_options
def list_(  # noqa: PLR0913 - an option each
    where: Where,
    tenant: str | None,
    action: str | None,
    principal: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """List rows, the newest first."""

    async def read(conn: Connection) -> list[dict[str, Any]]:
        found = await audit.list_audit(
            conn, tenant=tenant, action=action, principal=principal, limit=limit
        )
        if not found:  # a tenant that was deleted can still have an audit
            await check_tenant(conn, tenant)
        return found

    rows = ask(where, read)
    print_rows(rows, _COLUMNS, as_json=as_json, empty="the audit is empty", screen=_SCREEN)


@click.command("verify")
@click.option("--tenant", help="Only of this tenant.  [default: all; with --head: default]")
@click.option(
    "--head",
    metavar="NUMBER:DIGEST",
    callback=_head,
    help="A row that the log has named: the chain must still contain it.",
)
@json_option()
@where_options
def verify_(where: Where, tenant: str | None, head: Head | None, *, as_json: bool) -> None:
    """Name the first row of each tenant that was changed, removed, inserted or moved.

    The exit code is 1 if there is one.
    """
    chosen = tenant or ("default" if head else None)
    found = ask(where, lambda conn: audit.verify_audit(conn, tenant=chosen, head=head))
    if chosen and not found:
        raise ConfigError(
            f'tenant "{chosen}" has no audit, or you cannot see it',
            hint="Without --tenant, all audits that you see are verified.",
        )
    rows = [{name: getattr(each, name) for name in _VERIFIED} for each in found]
    print_rows(rows, _VERIFIED, as_json=as_json, empty="the audit is empty")
    if any(each.bad_row is not None for each in found):
        sys.exit(FAILED)
