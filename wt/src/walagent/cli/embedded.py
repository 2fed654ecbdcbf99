"""`walagent psql` and `walagent dsn`: reach the embedded server with other programs."""

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import click
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walagent.cli.session import Session, Where, open_session, where_options
from walagent.embedded.paths import default_bindir, default_data_dir
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
@click.option(
    "-d", "--dbname", metavar="NAME", help="Another database of the same server, such as demo."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@where_options
def psql_(where: Where, arguments: tuple[str, ...], dbname: str | None) -> None:
    """Open psql on the database that walagent uses; ARGUMENTS are psql's own.

    An embedded server that does not run is started for as long as psql is open.
    """
    session = open_session(where)
    code = asyncio.run(_opened(session, _find_psql(session), dbname, arguments))
    click.get_current_context().exit(code)


async def _opened(
    session: Session, program: str, dbname: str | None, arguments: tuple[str, ...]
) -> int:
    async with session.places() as places:
        dsn = make_conninfo(places.dsn, dbname=dbname) if dbname else places.dsn
        command, environ = _command(program, dsn, arguments)
        if places.embedded is None or not places.embedded.owned:
            os.execve(program, command, environ)  # noqa: S606 - nothing of ours has to go on
        return subprocess.run(command, env=environ, check=False).returncode  # noqa: S603, ASYNC221


def _command(
    program: str, dsn: str, arguments: tuple[str, ...]
) -> tuple[list[str], dict[str, str]]:
    """Give the command and its environment; a password is in the latter, where `ps` is blind."""
    parameters = conninfo_to_dict(dsn)
    password = parameters.pop("password", None)
    environ = dict(os.environ) | ({"PGPASSWORD": str(password)} if password else {})
    target = make_conninfo("", **parameters)
    return [program, target, *arguments], environ


def _find_psql(session: Session) -> str:
    """Find psql: for the embedded server the one that came with it, else the system's."""
    system = _system_psql()
    if session.choice is not None and system is not None:
        return system
    with suppress(PreconditionError):  # without the extra there is none beside the server
        beside = (session.config.embedded.bindir or default_bindir()) / "psql"
        if beside.exists():
            return str(beside)
    if system is not None:
        return system
    raise PreconditionError(
        "psql is not installed",
        hint="install it (Debian: apt install postgresql-client; macOS: brew install libpq), "
        "or use any other client with: walagent dsn",
    )


def _system_psql() -> str | None:
    """Find psql on the PATH, or where Debian puts it."""
    if found := shutil.which("psql"):
        return found
    debian = Path("/usr/lib/postgresql").glob("*/bin/psql")
    newest = max(debian, key=lambda path: int(path.parts[-3]), default=None)
    return str(newest) if newest else None
