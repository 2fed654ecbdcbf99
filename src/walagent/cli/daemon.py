"""`walagent run` and `walagent worker`: the processes that execute runs."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import click

from walagent import log, metrics
from walagent.app.migrate import is_new, migrate, plan_migrations
from walagent.app.serve import Hooks, serve, work
from walagent.app.startup import once_reached
from walagent.apply.apply import apply
from walagent.cli.output import say
from walagent.cli.session import Session, Where, open_session, where_options
from walagent.config import Config
from walagent.config.dsn import Places
from walagent.errors import PreconditionError


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
    _configure_log(session.config)

    async def followed() -> None:
        async with _prepared(session) as places:
            again = _Again(where, session, places, applying=not no_apply)
            await once_reached(again.apply)
            await serve(session.config, places, Hooks(reload=again.apply, logins=again.read))

    asyncio.run(followed())


@click.command("worker")
@where_options
def worker_(where: Where) -> None:
    """Execute runs without reading the WAL.

    One walagent run reads the WAL; any number of workers, on any machine, share its runs.
    """
    session = open_session(where)
    _configure_log(session.config)

    async def worked() -> None:
        async with _prepared(session) as places:
            again = _Again(where, session, places, applying=False)
            await work(session.config, places, Hooks(logins=again.read))

    asyncio.run(worked())


class _Again:
    """Reads the file again on SIGHUP, and applies it."""

    def __init__(self, where: Where, session: Session, places: Places, *, applying: bool) -> None:
        self._where = where
        self._session = session
        self._places = places
        self._applying = applying

    def read(self) -> Places:
        """Read `.env`, credentials and the file; return the logins that they name now."""
        self._session = open_session(self._where, self._session)
        if self._places.embedded is None and (choice := self._session.choice) is not None:
            self._places = Places(choice.dsn, choice.replication_dsn)
        return self._places

    async def apply(self) -> None:
        """Apply models, agents and attachments of the file as it was last read."""
        config = self._session.config
        if not self._applying or not (config.models or config.agents or config.attachments):
            return
        async with self._session.connect(self._places) as conn, conn.transaction():
            await apply(conn, config)


@asynccontextmanager
async def _prepared(session: Session) -> AsyncGenerator[Places]:
    """Yield a database whose schema is up to date.

    A database without the schema is prepared, and an embedded one is upgraded.  An older schema of
    any other database is an error: its operator decides when to upgrade it.
    """
    async with session.places(create=True) as places:
        await once_reached(lambda: _prepare(session, places))
        yield places


async def _prepare(session: Session, places: Places) -> None:
    async with session.connect(places) as conn:
        due = await plan_migrations(conn)
        if places.embedded is not None or is_new(due):
            await migrate(conn)
        if places.embedded is not None:
            say(f"embedded database in {places.embedded.data_dir}; open it with: walagent psql")
        elif is_new(due):
            say(f"prepared the database: {len(due)} migrations applied")
        elif due:
            raise PreconditionError(
                f"{len(due)} migrations are pending, the first is {due[0].name}",
                hint="Run walagent migrate.",
            )


def _configure_log(config: Config) -> None:
    form = config.log.format
    if form == "auto":
        form = "text" if sys.stderr.isatty() else "json"
    log.configure(form, config.log.level, on_lost=metrics.log_lines_lost.inc)
