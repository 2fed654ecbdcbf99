"""Which database we mean: flag, environment, file, and else the embedded server."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from walagent.config import Config, Embedded
from walagent.config.environment import Environment
from walagent.embedded.paths import default_data_dir
from walagent.errors import ConfigError, PreconditionError
from walagent.mask import hide

if TYPE_CHECKING:
    from walagent.embedded.server import EmbeddedServer

# libpq reads these itself; any of them says that a server is meant.  A user's name or a password
# alone does not.
_LIBPQ = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")
_URL = "DATABASE_URL"
_REPLICATION_URL = "DATABASE_REPLICATION_URL"


@dataclass(frozen=True, slots=True)
class Places:
    """The connection strings everything uses, and the embedded server if it is ours."""

    dsn: str = field(repr=False)
    replication_dsn: str = field(repr=False)
    embedded: "EmbeddedServer | None" = None


class Logins:
    """The connection strings that connections are made with from now on; a reload brings others."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def dsn(self) -> str:
        """The workers' and intake's."""
        return self._places.dsn

    def replication_dsn(self) -> str:
        """Of whoever reads the WAL."""
        return self._places.replication_dsn

    def renew(self, places: Places) -> bool:
        """Use other logins to the same database; say whether they are others.

        Raises:
            ConfigError: they lead to another database; nothing was changed.
        """
        for old, new in (
            (self._places.dsn, places.dsn),
            (self._places.replication_dsn, places.replication_dsn),
        ):
            if _database_of(old) != _database_of(new):
                raise ConfigError(
                    "the file names another database, which a running daemon does not change to",
                    hint="stop it and start it again; user, password and certificates may change",
                )
        changed = self._places != places
        self._places = places
        return changed


def _database_of(dsn: str) -> Mapping[str, Any]:
    """What of a connection string says where it leads, and not who goes there."""
    given = conninfo_to_dict(dsn)
    return {name: given.get(name) for name in ("host", "hostaddr", "port", "dbname", "service")}


@dataclass(frozen=True, slots=True)
class Choice:
    """A database that somebody has named, and who did; `dsn` is "" where libpq's variables do."""

    dsn: str = field(repr=False)
    replication_dsn: str = field(repr=False)
    named_by: str


def choose(
    config: Config,
    environment: Environment,
    *,
    dsn: str | None = None,
    replication_dsn: str | None = None,
) -> Choice | None:
    """Say which database is meant; None: nobody has named one.

    Args:
        dsn, replication_dsn: of the command line.

    Raises:
        ConfigError: a connection string cannot be read.
    """
    found = _named(config, environment, dsn)
    if found is None:
        if replication_dsn:
            raise ConfigError("--replication-dsn needs a database: give --dsn, too")
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
    return Choice(chosen, replication, named_by)


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
    """See that *dsn* can be read, and keep its password out of everything that is said."""
    try:
        password = conninfo_to_dict(dsn).get("password")
    except ProgrammingError:
        raise ConfigError(
            f"{named_by} is no connection string",  # nor is it shown: it may hold a password
            hint="postgresql://user:password@host/database, or: host=… dbname=… user=…",
        ) from None
    if password:
        hide(str(password))


@asynccontextmanager
async def open_places(
    choice: Choice | None, embedded: Embedded, *, create: bool
) -> AsyncGenerator[Places]:
    """Give the connection strings; an embedded server runs until the block ends.

    Args:
        create: whether an embedded database may be made where there is none yet.

    Raises:
        PreconditionError: no database is named, and there is no embedded one, or it fails.
    """
    if choice is not None:
        yield Places(choice.dsn, choice.replication_dsn)
        return
    data_dir = embedded.data_dir or default_data_dir()
    if not create and not (data_dir / "PG_VERSION").exists():
        raise PreconditionError(
            "no database is named, and there is no embedded one yet",
            hint="give --dsn or DATABASE_URL; or make the embedded one: walagent init",
        )
    from walagent.embedded.server import EmbeddedServer  # noqa: PLC0415 - few have one

    server = EmbeddedServer(data_dir, embedded.bindir)
    await server.start()
    try:
        yield Places(server.dsn(), server.dsn(), server)
    finally:
        await server.stop()


def describe(parameters: Mapping[str, Any]) -> str:
    """Name a database without what opens it: ``database "app" at host:port as user``."""
    host = parameters.get("host") or "this machine"
    port = f":{parameters['port']}" if parameters.get("port") else ""
    return f'database "{parameters.get("dbname", "")}" at {host}{port} as {parameters.get("user")}'
