"""Start the daemon of `walagent run` or `walagent serve worker` until a signal stops it."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import click

from walagent.app.serve import Hooks, serve, work
from walagent.app.startup import once_reached
from walagent.cli.session import CliSession, Where, open_session
from walagent.cli.start.console import address, link_of, say_granted
from walagent.cli.terminal.output import clean, say
from walagent.config import Config
from walagent.config.dsn import Places
from walagent.errors import PreconditionError, WalagentError
from walagent.store.errors import FORBIDDEN, MIGRATE, translating
from walagent.store.install.identity import check_database
from walagent.store.install.migrate import migrate, plan_migration
from walagent.store.install.plan import Plan
from walagent.store.install.pooling import check_pooling
from walagent.telemetry import log, metrics


async def follow(
    where: Where,
    session: CliSession,
    *,
    applying: bool,
    link: bool | None = None,
    page: str = "",
) -> None:
    """Read the WAL and execute runs.

    Args:
        applying: whether models, agents and attachments of the file are applied.
        link: whether a link to the console is printed; None: on a terminal and loopback.
        page: of the console, to which the link leads.
    """
    configure_log(session.config)
    async with prepared(session) as places:
        session = await once_reached(lambda: with_slot(session, places), session.config.http)
        again = _Again(where, session, places, applying=applying)
        await once_reached(again.apply, session.config.http)
        listening = await _console_link(session, places, link=link, page=page)
        hooks = Hooks(reload=again.apply, logins=again.read, on_listening=listening)
        await serve(session.config, places, hooks)


async def _console_link(
    session: CliSession, places: Places, *, link: bool | None, page: str
) -> Callable[[str, int], None]:
    """Return what prints the link as soon as the port is known."""
    from walagent.console.sessions import make_code

    http = session.config.http
    is_wanted = link if link is not None else sys.stdout.isatty() and http.host in _LOOPBACK
    if not (is_wanted and http.enabled):
        return lambda _host, _port: None
    try:
        async with session.connect(places) as conn, conn.transaction():
            code = await make_code(conn)
    except WalagentError as error:
        if link:
            raise
        say(f"no link to the console: {error}")  # the daemon does not need one
        return lambda _host, _port: None

    def listening(host: str, port: int) -> None:
        say_granted(code)
        base = http.public_url or address(host, port)
        click.echo(clean(f"console: {link_of(base.rstrip('/'), code.text, page)}"))

    return listening


_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


async def execute(where: Where, session: CliSession) -> None:
    """Execute runs without reading the WAL."""
    configure_log(session.config)
    async with prepared(session) as places:
        again = _Again(where, session, places, applying=False)
        await work(session.config, places, Hooks(logins=again.read))


# Sections of the file that are rows of the database.
_APPLIED: Final = (
    "models", "http_tools", "personas", "agents", "workflows", "attachments", "budgets",
)  # fmt: skip


class _Again:
    """Reads the file again on SIGHUP, and applies it."""

    def __init__(
        self, where: Where, session: CliSession, places: Places, *, applying: bool
    ) -> None:
        self._where = where
        self._session = session
        self._places = places
        self._applying = applying

    def read(self) -> Places:
        """Read `.env`, credentials and the file; return the logins that they name now."""
        self._session = open_session(self._where, self._session)
        if self._places.embedded is None and (choice := self._session.choice) is not None:
            self._places = Places(
                choice.dsn,
                choice.replication_dsn,
                tools_dsn=choice.tools_dsn,
                rows_dsn=choice.rows_dsn,
            )
        return self._places

    async def apply(self) -> None:
        """Apply models, agents and attachments of the file as it was last read."""
        config = self._session.config
        if not self._applying or not any(getattr(config, part) for part in _APPLIED):
            return
        from walagent.apply.apply import apply

        async with self._session.connect(self._places) as conn:
            try:
                with translating():
                    async with conn.transaction():
                        await apply(conn, config)
            except PreconditionError as error:
                if error.sqlstate != FORBIDDEN:
                    raise
                raise PreconditionError(
                    str(error),
                    hint="The daemon's login cannot apply the file: start it with --no-apply, and"
                    " run walagent apply as a developer.",
                    sqlstate=error.sqlstate,
                ) from error


@asynccontextmanager
async def prepared(session: CliSession) -> AsyncGenerator[Places]:
    """Yield a database whose schema is up to date.

    A database without the schema is prepared, and an embedded one is upgraded.  An older schema of
    any other database is an error: its operator decides when to upgrade it.
    """
    async with session.places(create=True) as places:
        await once_reached(lambda: _prepare(session, places), session.config.http)
        yield places


async def with_slot(session: CliSession, places: Places) -> CliSession:
    """Return the session with the slot that the database has, if none is named."""
    async with session.connect(places) as conn:
        return await session.with_slot(conn)


async def _prepare(session: CliSession, places: Places) -> None:
    async with session.connect(places) as conn:
        await check_pooling(conn, places.dsn)
        due = await plan_migration(conn)
        if places.embedded is not None or due.is_new:
            await migrate(conn)
        if places.embedded is not None:
            say(f"embedded database in {places.embedded.data_dir}; open it: walagent database psql")
        elif due.is_new:
            say("created the schema")
        elif due:
            raise _pending(due)
        await check_database(conn)


@asynccontextmanager
async def migrated(session: CliSession) -> AsyncGenerator[Places]:
    """Yield a database whose schema is up to date; nothing is changed.

    Raises:
        PreconditionError: it is not.
    """
    async with session.places() as places:
        await once_reached(lambda: _check_schema(session, places), session.config.http)
        yield places


async def _check_schema(session: CliSession, places: Places) -> None:
    async with session.connect(places) as conn:
        await check_pooling(conn, places.dsn)
        due = await plan_migration(conn)
        if due.is_new:
            raise PreconditionError("the database is not prepared", hint="Run walagent init.")
        if due:
            raise _pending(due)


def _pending(due: Plan) -> PreconditionError:
    return PreconditionError(due.text, hint=MIGRATE)


def renewing(where: Where, session: CliSession, places: Places) -> Callable[[], Places]:
    """Return what reads the logins again."""
    return _Again(where, session, places, applying=False).read


def configure_log(config: Config) -> None:
    """Write log events to stderr, as the file says."""
    form = config.log.format
    if form == "auto":
        form = "text" if sys.stderr.isatty() else "json"
    log.configure(form, config.log.level, on_lost=metrics.log_lines_lost.inc)
