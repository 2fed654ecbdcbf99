"""`walagent knowledge sessions`: list the sessions of this login, or delete some."""

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import json_option, print_json, say
from walagent.cli.terminal.table import print_rows
from walagent.errors import ConfigError
from walagent.store.people.listings import Connection
from walagent.store.people.question_runs import delete_session, list_sessions


@click.command("sessions")
@click.option(
    "--delete",
    "names",
    multiple=True,
    metavar="SESSION",
    help="Delete a session with its questions, answers and runs; repeatable.",
)
@json_option()
@where_options
def sessions_(where: Where, names: tuple[str, ...], *, as_json: bool) -> None:
    """List your sessions, the latest first, or delete some."""
    if names:
        ask(where, lambda conn: _delete(conn, names))
        if as_json:
            print_json({"deleted": list(names)})
        else:
            say(f"deleted {', '.join(names)}")
        return
    found = ask(where, list_sessions)
    columns = ["session", "questions", "made_at", "asked_at"]
    rows = [{name: getattr(each, name) for name in columns} for each in found]
    print_rows(rows, columns, as_json=as_json, empty="no sessions")


async def _delete(conn: Connection, names: tuple[str, ...]) -> None:
    """Delete all of them or none: the caller's transaction is rolled back."""
    for name in names:
        if not await delete_session(conn, name):
            raise ConfigError(
                f'session "{name}" does not exist',
                hint="Use walagent knowledge sessions to list yours.",
            )
