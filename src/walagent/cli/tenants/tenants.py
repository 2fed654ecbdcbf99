"""`walagent tenants`: organisations whose agents, rows and people are kept apart."""

import sys
from pathlib import Path

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_option, json_result, print_json, say, wants_json
from walagent.cli.terminal.table import print_rows
from walagent.errors import ConfigError
from walagent.store.people import tenancy


@click.command("list")
@json_option()
@where_options
def list_(where: Where, *, as_json: bool) -> None:
    """List tenants."""
    rows = ask(where, tenancy.list_tenants)
    columns = ["name", "display_name", "active", "principals", "created_at"]
    print_rows(rows, columns, as_json=as_json, empty="no tenants")


@click.command("add")
@click.argument("name")
@click.option("--display-name", default="", metavar="TEXT", help="Name for people.")
@json_option()
@where_options
def add_(where: Where, name: str, display_name: str, *, as_json: bool) -> None:
    """Create the tenant NAME."""
    identifier = ask(where, lambda conn: tenancy.create_tenant(conn, name, display_name))
    if as_json:
        print_json({"name": name, "id": str(identifier)})
    else:
        say(f"created tenant {name}")


@click.command("disable")
@click.argument("name")
@json_result
@where_options
def disable_(where: Where, name: str) -> None:
    """Refuse the principals of NAME, and start none of its runs, from now on."""
    ask(where, lambda conn: tenancy.enable_tenant(conn, name, active=False))
    done(f"disabled tenant {name}", disabled=name)


@click.command("enable")
@click.argument("name")
@json_result
@where_options
def enable_(where: Where, name: str) -> None:
    """Let the principals of a disabled tenant act, and its runs start, again."""
    ask(where, lambda conn: tenancy.enable_tenant(conn, name, active=True))
    done(f"enabled tenant {name}", enabled=name)


def _maximum(_context: click.Context, param: click.Parameter, text: str | None) -> str | None:
    if text is None or text == "none" or (text.isdecimal() and int(text) < 1 << 31):
        return text
    raise click.BadParameter(f'"{text}" is neither a number nor "none".', param=param)


@click.command("limit")
@click.argument("name")
@click.option("--max-running", metavar="N|none", callback=_maximum, help="Runs executed at once.")
@click.option(
    "--max-queued", metavar="N|none", callback=_maximum, help="Runs that wait for a worker."
)
@json_option()
@where_options
def limit_(where: Where, name: str, *, as_json: bool, **given: str | None) -> None:
    """Limit the runs of the tenant NAME; without options, show its limits."""
    limits = {
        column: None if text == "none" else int(text)
        for column, text in given.items()
        if text is not None
    }
    row = ask(where, lambda conn: tenancy.limit_tenant(conn, name, limits))
    if row is None:
        raise ConfigError(f'tenant "{name}" does not exist', hint="walagent tenants list")
    print_rows([row], list(row), as_json=as_json, empty="")


@click.command("export")
@click.argument("name")
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder that is created; it must not exist.",
)
@json_result
@where_options
def export_(where: Where, name: str, folder: Path) -> None:
    """Write all rows of NAME to files: a line of JSON for each row, a file for each table."""
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise ConfigError(f'folder "{folder}" exists', hint="Name another one by --to.") from None
    except OSError as error:
        raise ConfigError(
            f'folder "{folder}" cannot be created: {error.strerror}',
            hint="Name another one by --to.",
        ) from error
    counts = ask(where, lambda conn: tenancy.export_tenant(conn, name, folder))
    text = f"wrote {sum(counts.values())} rows of {len(counts)} tables to {folder}"
    done(text, exported=name, folder=str(folder), rows=counts)


@click.command("delete")
@click.argument("name")
@click.option(
    "--audit",
    type=click.Choice(["keep", "remove"]),
    default="keep",
    show_default=True,
    help="What happens to its audit.",
)
@click.option("--yes", is_flag=True, help="Do not ask for the name.")
@json_result
@where_options
def delete_(where: Where, name: str, audit: str, *, yes: bool) -> None:
    """Delete the tenant NAME with all that it has.  There is no undo: export it first.

    Runs that are being executed are lost by their workers: what they have not committed is rolled
    back.
    """
    contents = ask(where, lambda conn: tenancy.tenant_contents(conn, name))
    if not wants_json():
        print_rows(contents, ["relation", "rows"], as_json=False, empty="no rows")
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                f'"{name}" would be deleted without a confirmation', hint="Use --yes."
            )
        if click.prompt("Type the name to delete it", err=True) != name:
            raise ConfigError("the name does not match; nothing is deleted")
    deleted = ask(where, lambda conn: tenancy.delete_tenant(conn, name, audit))
    done(f"deleted tenant {name}: {deleted} rows", deleted=name, rows=deleted)
