"""`walagent psql` and `walagent dsn`: reach the embedded server with other programs."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import click
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walagent.app.dsn import Places
from walagent.cli.session import Session, Where, open_session, where_options
from walagent.embedded.paths import default_data_dir
from walagent.embedded.postmaster import find_running
from walagent.errors import ConfigError, PreconditionError


@click.command("dsn")
@where_options
def dsn_(where: Where) -> None:
    """Print how the embedded server is reached, for other programs; it must be running."""
    session = open_session(where)
    if session.choice is not None:
        raise ConfigError(
            f"the database is named by {session.choice.named_by}; there is no embedded one in use"
        )
    data_dir = session.config.embedded.data_dir or default_data_dir()
    found = find_running(data_dir.absolute())
    if found is None:
        raise PreconditionError(
            f"no embedded server runs on {data_dir}", hint="walagent run, or walagent psql"
        )
    click.echo(found)


@click.command("psql", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@where_options
def psql_(where: Where, arguments: tuple[str, ...]) -> None:
    """Open psql on the database that walagent uses; ARGUMENTS are psql's own.

    An embedded server that does not run is started for as long as psql is open.
    """
    session = open_session(where)
    program = _find_psql(session.config.embedded.bindir)
    code = asyncio.run(_opened(session, program, arguments))
    click.get_current_context().exit(code)


async def _opened(session: Session, program: str, arguments: tuple[str, ...]) -> int:
    async with session.places() as places:
        command, environ = _command(program, places, arguments)
        if places.embedded is None or not places.embedded.owned:
            os.execve(program, command, environ)  # noqa: S606 - nothing of ours has to go on
        return subprocess.run(command, env=environ, check=False).returncode  # noqa: S603, ASYNC221


def _command(
    program: str, places: Places, arguments: tuple[str, ...]
) -> tuple[list[str], dict[str, str]]:
    """Give the command and its environment; a password is in the latter, where `ps` is blind."""
    parameters = conninfo_to_dict(places.dsn)
    password = parameters.pop("password", None)
    environ = dict(os.environ) | ({"PGPASSWORD": str(password)} if password else {})
    target = make_conninfo("", **parameters)
    return [program, target, *arguments], environ


def _find_psql(bindir: Path | None) -> str:
    """Find psql: beside the server's binaries, on the PATH, or where Debian puts it."""
    beside = bindir / "psql" if bindir else None
    if beside is not None and beside.exists():
        return str(beside)
    if found := shutil.which("psql"):
        return found
    debian = Path("/usr/lib/postgresql").glob("*/bin/psql")
    if newest := max(debian, key=lambda path: int(path.parts[-3]), default=None):
        return str(newest)
    raise PreconditionError(
        "psql is not installed; the embedded server comes without it",
        hint="install it (Debian: apt install postgresql-client; macOS: brew install libpq), "
        "or use any other client with: walagent dsn",
    )
