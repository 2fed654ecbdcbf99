"""`walagent database psql` and `dsn`: use other clients with the embedded server."""

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import click
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.embedded.paths import default_bindir, default_data_dir
from walagent.embedded.postmaster import find_running
from walagent.errors import ConfigError, PreconditionError


@click.command("dsn")
@where_options
def dsn_(where: Where) -> None:
    """Print the connection string of the embedded server, which must be running."""
    session = open_session(where)
    if session.choice is not None:
        raise ConfigError(
            f"{session.choice.named_by} names the database; the embedded server is not used"
        )
    data_dir = session.config.embedded.data_dir or default_data_dir()
    found = find_running(data_dir.absolute())
    if found is None:
        raise PreconditionError(
            f'no embedded server is running in "{data_dir}"',
            hint="Start one with walagent run or walagent database psql.",
        )
    click.echo(make_conninfo(found, dbname=session.dbname) if session.dbname else found)


@click.command("psql", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@where_options
def psql_(where: Where, arguments: tuple[str, ...]) -> None:
    """Open psql on the database that walagent uses; ARGUMENTS are passed to psql.

    If the embedded server is not running, it is started and stopped with psql; if there is none, it
    is created.
    """
    session = open_session(where)
    code = asyncio.run(_opened(session, _find_psql(session), arguments))
    click.get_current_context().exit(code)


async def _opened(session: CliSession, program: str, arguments: tuple[str, ...]) -> int:
    async with session.places(create=True) as places:
        command, environ = _command(program, places.dsn, arguments)
        if places.embedded is None or not places.embedded.owned:
            os.execve(program, command, environ)  # noqa: S606 - nothing is left to clean up
        return subprocess.run(command, env=environ, check=False).returncode  # noqa: S603, ASYNC221


def _command(
    program: str, dsn: str, arguments: tuple[str, ...]
) -> tuple[list[str], dict[str, str]]:
    """Return command and environment; a password is in the latter: `ps` does not show it."""
    parameters = conninfo_to_dict(dsn)
    password = parameters.pop("password", None)
    environ = dict(os.environ) | ({"PGPASSWORD": str(password)} if password else {})
    target = make_conninfo("", **parameters)
    return [program, target, *arguments], environ


def _find_psql(session: CliSession) -> str:
    """Find psql: for the embedded server the one of its package, else the system's."""
    system = _system_psql()
    if session.choice is not None and system is not None:
        return system
    with suppress(PreconditionError):  # the extra is not installed
        beside = (session.config.embedded.bindir or default_bindir()) / "psql"
        if beside.exists():
            return str(beside)
    if system is not None:
        return system
    raise PreconditionError(
        "psql is not installed",
        hint="Install it (Debian: apt install postgresql-client; macOS: brew install libpq),"
        " or use another client with the connection string of walagent database dsn.",
    )


def _system_psql() -> str | None:
    """Find psql on the PATH or in Debian's directories."""
    if found := shutil.which("psql"):
        return found
    debian = Path("/usr/lib/postgresql").glob("*/bin/psql")
    newest = max(debian, key=lambda path: int(path.parts[-3]), default=None)
    return str(newest) if newest else None
