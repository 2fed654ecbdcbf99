"""Open connections to the database with common settings: orjson, durable commits, a name."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from psycopg import AsyncConnection, Error, OperationalError
from psycopg.adapt import AdaptersMap
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from walagent.errors import DatabaseLostError
from walagent.postgres.connection import OWN_PATH, open_connection, parameters, why_refused
from walagent.store.codecs.exact import read_json
from walagent.store.codecs.jsonb import to_json
from walagent.store.errors import translating
from walagent.store.sessions.acting import ActingConnection, Identity, give_identity

Pool = AsyncConnectionPool[AsyncConnection[Any]]

_MAY_SET: Final = " and pg_catalog.has_parameter_privilege('session_replication_role', 'set')"
# Settings that not every server has, or not every login may set.
_LATER: Final = {
    "transaction_timeout": ("0", ""),
    "restrict_nonsystem_relation_kind": ("", ""),
    "session_replication_role": ("origin", _MAY_SET),
}
# No name of ours is found by the login's path.  It is kept for the names that people give, which
# agent_internal.schemas_of_caller() finds; with a space, so that an empty one is not as none.
_PIN: Final = (
    "pg_catalog.set_config('walagent.search_path',"
    " pg_catalog.concat(pg_catalog.current_setting('search_path'), ' '), false),"
    f" pg_catalog.set_config('search_path', '{OWN_PATH['search_path']}', false)"
)
# What each session has beside its options, which RESET takes away.  No name or operator is looked
# up on the path, which can find those of others first.
_REST: Final = ", ".join([
    "pg_catalog.set_config('datestyle', 'ISO', false)",
    "pg_catalog.set_config('intervalstyle', 'postgres', false)",
    (
        "case when pg_catalog.current_setting('synchronous_commit') operator(pg_catalog.=)"
        " any (array['off', 'local'])"
        " then pg_catalog.set_config('synchronous_commit', 'on', false) end"
    ),
    *(
        f"case when pg_catalog.current_setting('{name}', true) operator(pg_catalog.<>) '{value}'"
        f"{may_set} then pg_catalog.set_config('{name}', '{value}', false) end"
        for name, (value, may_set) in _LATER.items()
    ),
])  # fmt: skip
RENEW: Final = f"{_PIN}, {_REST}"  # expressions of one SELECT


_RESTED: Final = 2.0  # seconds


def _prepare(context: AdaptersMap | AsyncConnection[Any]) -> None:
    set_json_loads(read_json, context)
    set_json_dumps(to_json, context)


async def _configure(conn: AsyncConnection[Any]) -> None:
    """Make commits durable before they are reported, whatever the defaults of role and database.

    So it is with what not every server has.

    A checkpoint that was reported durable and then lost in a crash would lose its changes.
    A stricter setting (remote_apply) is kept.  Times are formatted as psycopg parses them; the
    order of date fields (DMY, MDY) is kept too.

    Behind a pooler, which sends a PID of its own, nothing is prepared by name, and the path is
    left: the next statement can have another session, and this one another user.
    """
    _prepare(conn)
    own = f"pg_catalog.pg_backend_pid() operator(pg_catalog.=) {conn.info.backend_pid}"
    pin = f"case when {own} then pg_catalog.concat({_PIN}) end"
    cursor = await conn.execute(f"select {own}, {pin}, {_REST}".encode())
    row = await cursor.fetchone()
    if row is None or not row[0]:
        conn.prepare_threshold = None


async def connect(
    dsn: str,
    *,
    application: str = "walagent",
    idle: float | None = None,
    settings: Mapping[str, str] | None = None,
    identity: Identity | None = None,
) -> AsyncConnection[Any]:
    """Open a connection in autocommit mode.

    Args:
        idle: seconds after which the server ends the session if it is idle in a transaction.
        settings: of the session, in addition to those of all connections.
        identity: the principal as which its transactions act; None: the login.

    Raises:
        LoginRefusedError: the server rejects the login.
        DatabaseLostError: the server cannot be reached, or has no free connection.
    """
    wanted = {**_resting(idle), **(settings or {})}
    conn = await open_connection(ActingConnection, dsn, application, wanted)
    try:
        with translating():  # it can break before it is used
            await _configure(conn)
            give_identity(conn, identity)
    except BaseException:  # cancelled, too: no other code has it yet
        await conn.close()
        raise
    return conn


def _resting(idle: float | None) -> dict[str, str]:
    """Limit the time for which the server keeps a session idle in a transaction.

    A process that is frozen or disconnected would otherwise hold its locks for hours, including
    those on the application's rows.
    """
    if idle is None:
        return {}
    return {"idle_in_transaction_session_timeout": str(round(idle * 1000))}


class NoConnectionError(PoolTimeout):
    """No connection in time, and why the last attempt to open one failed."""

    def __init__(self, message: str, sqlstate: str | None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


def _cancellations() -> int:
    """Return how often the current task was cancelled."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


class _PooledConnection(ActingConnection):
    """A connection of a pool.

    Args:
        used_at: when it was given back, on the monotonic clock.
    """

    used_at: float = math.inf


async def answers(conn: AsyncConnection[Any]) -> bool:
    """Return whether a connection is open at both ends: it might have been idle for hours."""
    try:
        await conn.execute("")
    except Error:
        return False
    return True


class _Pool(AsyncConnectionPool[AsyncConnection[Any]]):
    """A pool that reports why it has no connection, not only the timeout.

    A connection that has rested is tried before it is given out: a server, pooler or firewall can
    have closed it meanwhile, which is no failure of what it is used for.
    """

    refused: OperationalError | None = None  # the error of the last attempt to connect

    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:  # noqa: ASYNC109 - psycopg's
        """Return a connection.

        Raises:
            NoConnectionError, PoolTimeout: none was available in time.
        """
        while True:
            conn = await self._next(timeout)
            rested = time.monotonic() - conn.used_at if isinstance(conn, _PooledConnection) else 0.0
            if rested < _RESTED or await answers(conn):
                return conn
            await self.putconn(conn)  # which discards it

    async def _next(self, timeout: float | None) -> AsyncConnection[Any]:  # noqa: ASYNC109 - psycopg's
        before = _cancellations()
        try:
            conn = await super().getconn(timeout)
        except PoolTimeout as error:
            if self.refused is None:
                raise
            reason, state = why_refused(self.refused)
            raise NoConnectionError(f"{error}: {reason}", state) from error
        if _cancellations() > before:  # the pool drops it if a connection came free
            await self.putconn(conn)
            raise asyncio.CancelledError
        return conn

    async def putconn(self, conn: AsyncConnection[Any]) -> None:
        """Take a connection back."""
        if isinstance(conn, _PooledConnection):
            conn.used_at = time.monotonic()
        await super().putconn(conn)

    def watching(self, application: str, idle: float | None) -> type[AsyncConnection[Any]]:
        """Create the class of this pool's connections, which records errors of connecting."""
        pool = self

        class Connection(_PooledConnection):
            @classmethod
            async def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:  # noqa: ANN401 - psycopg's
                given = {**kwargs, **parameters(conninfo, application, _resting(idle))}
                try:
                    conn = await super().connect(conninfo, **given)
                except OperationalError as error:
                    pool.refused = error
                    raise
                pool.refused = None
                return conn

        return Connection


def why_not(pool: Pool) -> tuple[str, str | None]:
    """Return why the last attempt of *pool* to connect failed, and its SQLSTATE."""
    refused = pool.refused if isinstance(pool, _Pool) else None
    return ("", None) if refused is None else why_refused(refused)


@asynccontextmanager
async def open_pool(  # noqa: PLR0913 - settings of psycopg's pool
    dsn: str | Callable[[], str],
    *,
    size: int,
    application: str,
    idle: float | None = None,
    discard: str = "",
    identity: Identity | None = None,
) -> AsyncGenerator[Pool]:
    """Open a pool of up to *size* connections; the first is opened before it returns.

    Args:
        dsn: a connection string, or a function that returns one for each connection.
        idle: as for `connect`.
        discard: statements that discard what the use of a connection left in its session, before
            it is used again.  Nothing is then prepared on it by name.
        identity: as for `connect`.

    Raises:
        DatabaseLostError: no connection could be opened.
    """

    async def clean(conn: AsyncConnection[Any]) -> None:
        await conn.execute(discard.encode())

    async def configure(conn: AsyncConnection[Any]) -> None:
        await _configure(conn)
        give_identity(conn, identity)

    pool = _Pool(
        dsn,
        min_size=1,
        max_size=size,
        open=False,
        name=application,
        kwargs={"autocommit": True, **({"prepare_threshold": None} if discard else {})},
        configure=configure,
        reset=clean if discard else None,
        timeout=30,
        reconnect_timeout=5,
    )
    pool.connection_class = pool.watching(application, idle)
    try:
        await pool.open(wait=True, timeout=15)
        yield pool
    except PoolTimeout as error:
        raise DatabaseLostError(f"no database connection in time: {error}") from error
    finally:
        await pool.close(timeout=5)
