"""`walagent run` and `walagent worker`: the processes that execute runs."""

import asyncio

import click

from walagent.cli.output import say
from walagent.cli.session import Where, open_session, where_options


@click.command("run")
@click.option("--check", is_flag=True, help="Validate the file, without connecting.")
@click.option("--no-apply", is_flag=True, help="Do not apply the file's agents and models.")
@where_options
def run_(where: Where, *, check: bool, no_apply: bool) -> None:
    """Read the WAL and execute runs, until SIGTERM or Ctrl-C.

    At startup, and again on SIGHUP, the models, agents and attachments of the file are applied.
    A new database is prepared first.  If no database is named, an embedded PostgreSQL is started.
    """
    session = open_session(where)
    if check:
        say("the file is valid")
        return
    from walagent.cli.serving import follow

    asyncio.run(follow(where, session, applying=not no_apply))


@click.command("worker")
@where_options
def worker_(where: Where) -> None:
    """Execute runs without reading the WAL.

    One walagent run reads the WAL; any number of workers, on any machine, share its runs.
    """
    session = open_session(where)
    from walagent.cli.serving import execute

    asyncio.run(execute(where, session))
