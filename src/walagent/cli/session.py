"""The options that select the configuration file and the database."""

import asyncio
import functools
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import click
from psycopg import Error
from psycopg.errors import Diagnostic

from walagent.cli.terminal.output import say
from walagent.config import Config
from walagent.config.dsn import DatabaseChoice, Places, choose, open_places
from walagent.config.environment import Environment, load_env_file
from walagent.config.loading import load_config
from walagent.errors import PreconditionError, WalagentError
from walagent.postgres.quoting import quote_text
from walagent.store.checkpoint import slot_of_database
from walagent.store.errors import FORBIDDEN, MIGRATE, NOT_MIGRATED, translating
from walagent.store.install.migrate import plan_migration
from walagent.store.people.listings import Connection
from walagent.store.people.privileges import DeniedRight, denied_right
from walagent.store.sessions.acting import identity_of_token
from walagent.store.sessions.connections import connect
from walagent.telemetry.mask import hide

_SLOT_NAME = re.compile("[a-z0-9_]{1,63}")
_HTTP_ADDRESS = re.compile(r"(.+:)?\d{1,5}")
_LAST_PORT = 65_535

P = ParamSpec("P")
T = TypeVar("T")

_OTHERS = (
    "This is the default database of the embedded server, and walagent init has not prepared it."
    " For the database of walagent demo, add -d demo."
)


@dataclass(frozen=True, slots=True)
class Where:
    """The file and the database as given on the command line."""

    config: Path | None = None
    dsn: str | None = field(default=None, repr=False)
    replication_dsn: str | None = field(default=None, repr=False)
    dbname: str | None = None
    slot: str | None = None
    http: str | None = None  # a port, HOST:PORT, or off
    token: str | None = field(default=None, repr=False)

    @property
    def options(self) -> list[str]:
        """The same on the command line of another process."""
        given = {
            "--config": self.config,
            "--dsn": self.dsn,
            "--replication-dsn": self.replication_dsn,
            "--dbname": self.dbname,
            "--http": self.http,
        }
        return [word for name, value in given.items() if value for word in (name, str(value))]


@dataclass(frozen=True, slots=True)
class CliSession:
    """The configuration and the selected database; None: the embedded one."""

    config: Config
    environment: Environment
    choice: DatabaseChoice | None
    from_env_file: frozenset[str] = frozenset()  # variables that .env has set, and may set again
    dbname: str | None = None  # of the embedded server; None: the default one
    token: str | None = field(default=None, repr=False)  # of the principal to act as

    def for_process(self, index: int) -> Self:
        """Return the session of one of several processes, which serve HTTP on the next ports.

        The port itself is left to a walagent run on the same machine.
        """
        http = self.config.http
        if not http.port:
            return self
        http = http.model_copy(update={"port": http.port + 1 + index})
        return replace(self, config=self.config.model_copy(update={"http": http}))

    async def with_slot(self, conn: Connection) -> Self:
        """Return the session with the slot that the database has, if none is named."""
        replication = self.config.replication
        if "slot" in replication.model_fields_set:
            return self
        slot = await slot_of_database(conn, replication.slot)
        replication = replication.model_copy(update={"slot": slot})
        return replace(self, config=self.config.model_copy(update={"replication": replication}))

    @asynccontextmanager
    async def places(self, *, create: bool = False) -> AsyncGenerator[Places]:
        """Yield the connection strings; see `config.dsn.open_places`."""
        embedded, name = self.config.embedded, self.dbname
        async with open_places(self.choice, embedded, create=create, dbname=name) as places:
            yield replace(places, token=self.token)

    @asynccontextmanager
    async def connect(
        self, places: Places, *, replication: bool = False
    ) -> AsyncGenerator[Connection]:
        """Open a connection in autocommit mode; errors of PostgreSQL are translated.

        Args:
            replication: use the login that reads the WAL, for an ordinary connection.
        """
        dsn = places.replication_dsn if replication else places.dsn
        login = ""
        try:
            with translating():
                identity = identity_of_token(places.token) if places.token else None
                async with await connect(
                    dsn, application="walagent cli", identity=identity
                ) as conn:
                    login = conn.info.user
                    conn.add_notice_handler(_print_warning)
                    yield conn
        except PreconditionError as error:
            if error.sqlstate == FORBIDDEN and not error.hint:
                hint = await _lacking(dsn, login, str(error))
            elif error.sqlstate not in NOT_MIGRATED:
                raise
            elif self.dbname or places.embedded is None:
                hint = await _unprepared(dsn) or error.hint
            else:
                hint = _OTHERS
            raise PreconditionError(str(error), hint=hint, sqlstate=error.sqlstate) from error

    @asynccontextmanager
    async def connection(self, *, create: bool = False) -> AsyncGenerator[Connection]:
        """Yield a connection to the selected database."""
        async with self.places(create=create) as places, self.connect(places) as conn:
            yield conn


async def _lacking(dsn: str, login: str, message: str) -> str:
    """Say how a login gets what it may not use: PostgreSQL names the object alone."""
    with suppress(Error, WalagentError):
        async with await connect(dsn, application="walagent cli") as conn:
            if (right := await denied_right(conn, login, message)) is not None:
                return _who_grants(right, login)
    return (
        f'The login "{login}" lacks this right. The owner of walagent\'s schema grants parts of it:'
        f" select agent.grant_viewer({quote_text(login)}),"
        " or grant_member, grant_approver, grant_developer."
    )


async def _unprepared(dsn: str) -> str:
    """Say how a database gets the schema that it lacks; "" if it has it."""
    with suppress(Error, WalagentError):
        async with await connect(dsn, application="walagent cli") as conn:
            try:
                plan = await plan_migration(conn)
            except PreconditionError as error:
                return error.hint
            return "Run walagent init." if plan.is_new else MIGRATE if plan else ""
    return ""


def _who_grants(right: DeniedRight, login: str) -> str:
    if right.owner is None:
        return f'The owner of {right.name} grants the right on it to role "{login}".'
    # That of the daemon sees and does all: it is for no person.
    capabilities = [name for name in right.capabilities if name != "runner"]
    if not capabilities:
        return f'Use the login of the owner of walagent\'s schema, "{right.owner}".'
    grants = " or ".join(
        f"select agent.grant_{name}({quote_text(login)});" for name in capabilities
    )
    return f'As the owner of walagent\'s schema, "{right.owner}": {grants}'


def _print_warning(notice: Diagnostic) -> None:
    """Print warnings of the schema's functions; drop PostgreSQL's lesser notices."""
    if notice.severity_nonlocalized == "WARNING":
        say(f"warning: {notice.message_primary}")
        if notice.message_hint:
            say(f"hint: {notice.message_hint}")


def where_options(command: Callable[Concatenate[Where, P], T]) -> Callable[P, T]:
    """Add --config, --dsn, --replication-dsn, --dbname and --token: the first argument."""

    @click.option(
        "--config",
        "config_path",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="WALAGENT_CONFIG",
        help="Configuration file.  [default: agents.yaml]",
    )
    @click.option("--dsn", help="Database: a URL, a libpq connection string, or embedded.")
    @click.option("--replication-dsn", help="Login that reads the WAL.  [default: as --dsn]")
    @click.option(
        "-d", "--dbname", metavar="NAME", help="Another database of the server, such as demo."
    )
    @click.option(
        "--token",
        metavar="TOKEN",
        help="Act as the principal of a token.  Prefer WALAGENT_TOKEN: ps shows an option.",
    )
    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        options: dict[str, Any] = dict(kwargs)
        given = ("config_path", "dsn", "replication_dsn", "dbname")
        token = options.pop("token")
        where = Where(*map(options.pop, given), token=token)
        return command(where, *args, **options)  # pyright: ignore[reportCallIssue]

    return wrapped


def slot_option(command: Callable[Concatenate[Where, P], T]) -> Callable[Concatenate[Where, P], T]:
    """Add --slot to a command that reads the WAL or manages the slot; see `where_options`."""

    @click.option(
        "--slot",
        metavar="NAME",
        envvar="WALAGENT_SLOT",
        callback=_slot_name,
        help="Replication slot of this database.  [default: the one that it has]",
    )
    @functools.wraps(command)
    def wrapped(where: Where, *args: P.args, **kwargs: P.kwargs) -> T:
        slot: Any = kwargs.pop("slot")
        return command(replace(where, slot=slot), *args, **kwargs)

    return wrapped


def _slot_name(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    if name is not None and not _SLOT_NAME.fullmatch(name):
        raise click.BadParameter(f'"{name}" is not a slot name: use a-z, 0-9 and _, up to 63')
    return name


def http_option(command: Callable[Concatenate[Where, P], T]) -> Callable[Concatenate[Where, P], T]:
    """Add --http to a command that serves HTTP; see `where_options`."""

    @click.option(
        "--http",
        metavar="[HOST:]PORT",
        callback=_http_address,
        help="Where to serve HTTP, or off.  [default: http.host and http.port]",
    )
    @functools.wraps(command)
    def wrapped(where: Where, *args: P.args, **kwargs: P.kwargs) -> T:
        http: Any = kwargs.pop("http")
        return command(replace(where, http=http), *args, **kwargs)

    return wrapped


def _http_address(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> str | None:
    if text is None or text == "off":
        return text
    if not _HTTP_ADDRESS.fullmatch(text) or int(text.rpartition(":")[2]) > _LAST_PORT:
        raise click.BadParameter(
            f'"{text}" is not an address: use PORT (0 to 65535), HOST:PORT, or off'
        )
    return text


def _overridden(config: Config, where: Where) -> Config:
    """Return the configuration with what the command line names."""
    if where.slot is not None:
        replication = config.replication.model_copy(update={"slot": where.slot})
        config = config.model_copy(update={"replication": replication})
    if where.http is not None:
        host, _, port = where.http.rpartition(":")
        update: dict[str, Any] = {"enabled": where.http != "off"}
        update |= {"host": host.strip("[]")} if host else {}
        update |= {"port": int(port)} if port != "off" else {}
        config = config.model_copy(update={"http": config.http.model_copy(update=update)})
    return config


def open_session(where: Where, before: CliSession | None = None) -> CliSession:
    """Read `.env` and the configuration file, and select the database.

    Args:
        before: the session of this process, when the files are read again.

    Raises:
        ConfigError: one of them is invalid.
    """
    names = load_env_file(
        Path(".env"), os.environ, before.from_env_file if before else (), warn=say
    )
    environment = Environment.of_process()
    config = _overridden(load_config(where.config, environment), where)
    choice = choose(
        config,
        environment,
        dsn=where.dsn,
        replication_dsn=where.replication_dsn,
        dbname=where.dbname,
    )
    token = where.token or environment.find("WALAGENT_TOKEN")
    if token:
        hide(token)
    return CliSession(config, environment, choice, names, where.dbname, token)


def ask(where: Where, question: Callable[[Connection], Awaitable[T]]) -> T:
    """Call *question* with a connection, in a transaction of its own."""
    session = open_session(where)

    async def asked() -> T:
        async with session.connection() as conn, conn.transaction():
            return await question(conn)

    return asyncio.run(asked())
