"""Select the database: option, environment, file, or else the embedded server."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walagent.config import Config, Embedded
from walagent.config.environment import Environment
from walagent.embedded.paths import default_data_dir
from walagent.errors import ConfigError, PreconditionError
from walagent.postgres.dsn import check_dsn
from walagent.telemetry.mask import hide

if TYPE_CHECKING:
    from walagent.embedded.server import EmbeddedServer

# libpq reads these itself; each of them selects a server.  A user name or password alone does not.
_LIBPQ = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")
EMBEDDED = "embedded"  # as --dsn: the embedded server, whatever else names a database
_URL = "DATABASE_URL"
_REPLICATION_URL = "DATABASE_REPLICATION_URL"
_TOOLS_URL = "DATABASE_TOOLS_URL"
_ROWS_URL = "DATABASE_ROWS_URL"


@dataclass(frozen=True, slots=True)
class Places:
    """The connection strings of the process, and the embedded server if it is used."""

    dsn: str = field(repr=False)
    replication_dsn: str = field(repr=False)
    embedded: "EmbeddedServer | None" = None
    tools_dsn: str = field(default="", repr=False)  # "": derived from the first
    rows_dsn: str = field(default="", repr=False)  # of the login that reads open tables; the same
    token: str | None = field(default=None, repr=False)  # of the principal to act as


def places_of(dsn: str, token: str | None = None) -> Places:
    """Return the places of a program that names its database itself."""
    tools_dsn = Environment.of_process().find(_TOOLS_URL) or ""
    return Places(dsn, dsn, tools_dsn=tools_dsn, token=token)


class Logins:
    """The current connection strings; a reload replaces them."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def dsn(self) -> str:
        """Of workers and intake."""
        return self._places.dsn

    def replication_dsn(self) -> str:
        """Of the WAL reader."""
        return self._places.replication_dsn

    def tools_dsn(self) -> str:
        """Of the connections on which code of others is executed; "": derived from `dsn`."""
        return self._places.tools_dsn

    def rows_dsn(self) -> str:
        """Of the connections that read the rows of open tables; "": derived from `dsn`."""
        return self._places.rows_dsn

    def renew(self, places: Places) -> bool:
        """Replace the logins; return whether they have changed.

        Raises:
            ConfigError: they select another database; nothing was changed.
        """
        for old, new in (
            (self._places.dsn, places.dsn),
            (self._places.replication_dsn, places.replication_dsn),
        ):
            if _database_of(old) != _database_of(new):
                raise ConfigError(
                    "cannot change the database of a running daemon",
                    hint="Restart the daemon. A reload changes only user, password and"
                    " certificates.",
                )
        changed = self._places != places
        self._places = places
        return changed


def _database_of(dsn: str) -> Mapping[str, Any]:
    """Return the parameters that select the database, without those of the login."""
    given = conninfo_to_dict(dsn)
    return {name: given.get(name) for name in ("host", "hostaddr", "port", "dbname", "service")}


@dataclass(frozen=True, slots=True)
class DatabaseChoice:
    """A named database and what named it; `dsn` is "" if libpq's variables did."""

    dsn: str = field(repr=False)
    replication_dsn: str = field(repr=False)
    named_by: str
    tools_dsn: str = field(default="", repr=False)
    rows_dsn: str = field(default="", repr=False)


def choose(
    config: Config,
    environment: Environment,
    *,
    dsn: str | None = None,
    replication_dsn: str | None = None,
    dbname: str | None = None,
) -> DatabaseChoice | None:
    """Select the database; None: the embedded one.

    Args:
        dsn, replication_dsn, dbname: of the command line; *dbname* replaces that of the DSN.

    Raises:
        ConfigError: a connection string is invalid, or an option is empty.
    """
    _check_filled({"--dsn": dsn, "--replication-dsn": replication_dsn, "--dbname": dbname})
    found = None if dsn == EMBEDDED else _named(config, environment, dsn)
    if found is None:
        if replication_dsn:
            raise ConfigError(
                "--replication-dsn is set, but no database is named", hint="Use --dsn too."
            )
        return None
    chosen, named_by = found
    replication = (
        replication_dsn
        or environment.find(_REPLICATION_URL)
        or config.database.replication_dsn
        or chosen
    )
    _check(chosen, named_by)
    _check(replication, "the replication DSN")
    tools = environment.find(_TOOLS_URL) or config.database.tools_dsn or ""
    _check(tools, _TOOLS_URL)
    rows = environment.find(_ROWS_URL) or config.database.rows_dsn or ""
    _check(rows, _ROWS_URL)
    if dbname:
        chosen = make_conninfo(chosen, dbname=dbname)
        replication = make_conninfo(replication, dbname=dbname)
        tools = make_conninfo(tools, dbname=dbname) if tools else tools
        rows = make_conninfo(rows, dbname=dbname) if rows else rows
    return DatabaseChoice(chosen, replication, named_by, tools, rows)


def _check_filled(options: Mapping[str, str | None]) -> None:
    """Reject an empty option: a script's variable that is not set must not select a database."""
    for name, value in options.items():
        if value is not None and not value.strip():
            raise ConfigError(
                f"{name} is empty",
                hint=f"Leave the option out, or check the variable that was passed to {name}.",
            )


def _named(config: Config, environment: Environment, dsn: str | None) -> tuple[str, str] | None:
    if dsn:
        return dsn, "--dsn"
    if url := environment.find(_URL):
        return url, _URL
    if name := next((name for name in _LIBPQ if environment.find(name)), None):
        return "", name
    if config.database.dsn:
        return config.database.dsn, "database.dsn"
    return None


def _check(dsn: str, named_by: str) -> None:
    """Validate *dsn*, and mask its password in all output."""
    check_dsn(dsn, named_by)
    if password := conninfo_to_dict(dsn).get("password"):
        hide(str(password))


@asynccontextmanager
async def open_places(
    choice: DatabaseChoice | None, embedded: Embedded, *, create: bool, dbname: str | None = None
) -> AsyncGenerator[Places]:
    """Yield the connection strings; an embedded server is kept running until the block ends.

    Args:
        create: create an embedded server if none exists.
        dbname: the database of the embedded server.

    Raises:
        PreconditionError: no database is named, and no embedded one exists or it does not start.
    """
    if choice is not None:
        yield Places(
            choice.dsn,
            choice.replication_dsn,
            tools_dsn=choice.tools_dsn,
            rows_dsn=choice.rows_dsn,
        )
        return
    data_dir = embedded.data_dir or default_data_dir()
    if not create and not (data_dir / "PG_VERSION").exists():
        raise PreconditionError(
            "no database is named, and no embedded database exists",
            hint="Use --dsn or DATABASE_URL to name one, or run walagent init to create an embedded"
            " one.",
        )
    from walagent.embedded.server import EmbeddedServer  # noqa: PLC0415 - rarely used

    server = EmbeddedServer(data_dir, embedded.bindir)
    await server.start()
    dsn = server.dsn(dbname or "postgres")
    keeping = asyncio.create_task(server.keep_running(), name="embedded server")
    try:
        yield Places(dsn, dsn, server)
    finally:
        keeping.cancel()
        await server.stop()


def describe(parameters: Mapping[str, Any]) -> str:
    """Describe a database without secrets: ``database "app" at host:port as user``."""
    host = parameters.get("host") or "this machine"
    port = f":{parameters['port']}" if parameters.get("port") else ""
    return f'database "{parameters.get("dbname", "")}" at {host}{port} as {parameters.get("user")}'
