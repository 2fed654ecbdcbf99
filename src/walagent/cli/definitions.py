"""What the commands of personas, tools and policies have in common."""

from collections.abc import Sequence

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import json_option, print_json
from walagent.cli.terminal.table import print_rows
from walagent.store.people import definitions


def listing(many: str, columns: Sequence[str]) -> click.Command:
    """Create the command `list`."""

    @click.command("list", help=f"List {many}.")
    @json_option()
    @where_options
    def command(where: Where, *, as_json: bool) -> None:
        rows = ask(where, lambda conn: definitions.list_all(conn, many))
        print_rows(rows, columns, as_json=as_json, empty=f"no {many}")

    return command


def showing(one: str) -> click.Command:
    """Create the command `show`."""

    @click.command("show", help=f"Show a {one}.")
    @click.argument("name")
    @json_option()
    @where_options
    def command(where: Where, name: str, *, as_json: bool) -> None:
        row = ask(where, lambda conn: definitions.show(conn, one, name))
        if row is None:
            raise definitions.unknown(one, name)
        if as_json:
            print_json(row)
            return
        parts = [{"column": key, "value": value} for key, value in row.items() if value is not None]
        print_rows(parts, ["column", "value"], as_json=False, empty="")

    return command


def versions(one: str, columns: Sequence[str]) -> click.Command:
    """Create the command `versions`."""

    @click.command("versions", help=f"List the versions of a {one}, the latest first.")
    @click.argument("name")
    @json_option()
    @where_options
    def command(where: Where, name: str, *, as_json: bool) -> None:
        rows = ask(where, lambda conn: definitions.versions(conn, one, name))
        print_rows(rows, columns, as_json=as_json, empty="")

    return command
