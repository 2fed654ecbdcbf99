"""`walagent run` and `walagent serve worker`: the processes that execute runs."""

import asyncio
import sys
from typing import NoReturn

import click

from walagent.cli.session import (
    CliSession,
    Where,
    http_option,
    open_session,
    slot_option,
    where_options,
)
from walagent.cli.terminal.output import say
from walagent.errors import ConfigError


@click.command("run")
@click.option("--check", is_flag=True, help="Validate the file, without connecting.")
@click.option(
    "--link/--no-link",
    default=None,
    help="Print a link that signs in to the console.  [default: on a terminal and loopback]",
)
@click.option("--no-apply", is_flag=True, help="Do not apply the file's agents and models.")
@where_options
@slot_option
@http_option
def run_(where: Where, *, check: bool, link: bool | None, no_apply: bool) -> None:
    """Read the WAL and execute runs, until SIGTERM or Ctrl-C.

    At startup, and again on SIGHUP, the models, agents and attachments of agents.yaml are applied.
    A new database is prepared first.  If no database is named, an embedded PostgreSQL is started.
    """
    session = open_session(where)
    if check:
        say("the file is valid")
        return
    from walagent.cli.serve.serving import follow

    asyncio.run(follow(where, session, applying=not no_apply, link=link))


@click.command("worker")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of processes, at most one for each core.",
)
@click.option("--process", "index", type=int, hidden=True, help="Index of a child process.")
@where_options
@http_option
def worker_(where: Where, processes: int, index: int | None) -> None:
    """Execute runs without reading the WAL.

    One walagent run reads the WAL; any number of workers, on any machine, share its runs.  With
    --processes, each process has workers.slots runs and workers.connections connections, and
    serves HTTP on one of the ports after http.port.
    """
    session = open_session(where)
    if processes > 1:
        _run_processes(where, session, processes)
    if index is not None:
        from walagent.app.processes import end_with_parent

        end_with_parent()
        session = session.for_process(index)
    from walagent.cli.serve.serving import execute

    asyncio.run(execute(where, session))


def _run_processes(where: Where, session: CliSession, count: int) -> NoReturn:
    if session.choice is None:
        raise ConfigError(
            "--processes requires a database",
            hint="Use --dsn: an embedded server belongs to the process that starts it.",
        )
    from walagent.app.processes import run_processes
    from walagent.cli.serve.serving import configure_log

    configure_log(session.config)
    command = [sys.executable, "-m", "walagent", "serve", "worker", *where.options]
    sys.exit(asyncio.run(run_processes(lambda index: [*command, "--process", str(index)], count)))
