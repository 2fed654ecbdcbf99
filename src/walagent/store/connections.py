"""Connections to the database, all set up alike: orjson for JSON, durable commits, our name."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, cast

import orjson
from psycopg import AsyncConnection, OperationalError
from psycopg.adapt import AdaptersMap
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from walagent.connection import TEXT_FORMS, open_connection, parameters, why_refused
from walagent.errors import DatabaseLostError
from walagent.message import Json
from walagent.store.codecs.exact import exact, read_json
from walagent.store.errors import translating
from walagent.store.watched_connection import Session

Pool = AsyncConnectionPool[AsyncConnection[Any]]

# An escaped NUL, which jsonb refuses; an even number of backslashes before it escape themselves.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_MARK = "\N{REPLACEMENT CHARACTER}"


def to_json(value: Json) -> bytes:
    """Write JSON that jsonb takes: NUL and lone surrogates, which it refuses, become a mark."""
    try:
        document = orjson.dumps(value, exact, orjson.OPT_NON_STR_KEYS)
    except TypeError:
        document = orjson.dumps(_encodable(value), exact, orjson.OPT_NON_STR_KEYS)
    if b"u0000" in document:
        document = _NUL.sub(rb"\1" + _MARK.encode(), document)
    return document


def _encodable(value: Json) -> Json:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            items = cast("dict[Json, Json]", value).items()
            return {_encodable(key): _encodable(each) for key, each in items}
        case list() | tuple():
            return [_encodable(each) for each in cast("Sequence[Json]", value)]
        case _:
            return value


def _prepare(context: AdaptersMap | AsyncConnection[Any]) -> None:
    set_json_loads(read_json, context)
    set_json_dumps(to_json, context)


async def _configure(conn: AsyncConnection[Any]) -> None:
    """Make commits durable before they are reported, whatever the role's or database's default.

    A checkpoint that was reported durable and then lost in a crash would lose its changes for ever.
    A stricter setting (remote_apply) stays.  Times are written as psycopg reads them; how dates are
    read (DMY, MDY) stays, too.
    """
    _prepare(conn)
    await conn.execute(
        "select set_config('datestyle', %s, false),"
        "       set_config('intervalstyle', %s, false),"
        "       case when current_setting('synchronous_commit') in ('off', 'local')"
        "            then set_config('synchronous_commit', 'on', false) end",
        [TEXT_FORMS["datestyle"], TEXT_FORMS["intervalstyle"]],
    )


async def connect(
    dsn: str,
    *,
    application: str = "walagent",
    idle: float | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncConnection[Any]:
    """Open a connection in autocommit mode.

    Args:
        idle: seconds after which the server ends it, when we rest in an open transaction.
        settings: of the session, beside those of all connections.

    Raises:
        LoginRefusedError: the server does not let us in.
        DatabaseLostError: the server cannot be reached, or has no room for us for now.
    """
    wanted = {**_resting(idle), **(settings or {})}
    conn = await open_connection(Session, dsn, application, wanted)
    try:
        with translating():  # it may break before it has served anybody
            await _configure(conn)
    except BaseException:  # cancelled, too: nobody else has it yet
        await conn.close()
        raise
    return conn


def _resting(idle: float | None) -> dict[str, str]:
    """Bound how long the server keeps an open transaction that rests.

    A process that is frozen, or cut off, would otherwise hold its locks for hours, also those on
    the application's rows.
    """
    if idle is None:
        return {}
    return {"idle_in_transaction_session_timeout": str(round(idle * 1000))}


class NoConnectionError(PoolTimeout):
    """No connection in time, and why the last attempt to make one failed."""

    def __init__(self, message: str, sqlstate: str | None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


def _cancellations() -> int:
    """Say how often the current task has been told to stop."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


class _Pool(AsyncConnectionPool[AsyncConnection[Any]]):
    """A pool that says why it has no connection; psycopg's says after how long."""

    refused: OperationalError | None = None  # by the last attempt to make a connection

    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:  # noqa: ASYNC109 - psycopg's
        """Give a connection.

        Raises:
            NoConnectionError, PoolTimeout: there was none in time.
        """
        before = _cancellations()
        try:
            conn = await super().getconn(timeout)
        except PoolTimeout as error:
            if self.refused is None:
                raise
            told, state = why_refused(self.refused)
            raise NoConnectionError(f"{error}: {told}", state) from error
        if _cancellations() > before:  # which the pool forgets where one came free just then
            await self.putconn(conn)
            raise asyncio.CancelledError
        return conn

    def watching(self, application: str, idle: float | None) -> type[AsyncConnection[Any]]:
        """Make the class of this pool's connections, which notes how connecting goes."""
        pool = self

        class Connection(Session):
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
    """Say why the last attempt of *pool* to make a connection failed, and its SQLSTATE."""
    refused = pool.refused if isinstance(pool, _Pool) else None
    return ("", None) if refused is None else why_refused(refused)


@asynccontextmanager
async def open_pool(
    dsn: str | Callable[[], str], *, size: int, application: str, idle: float | None = None
) -> AsyncGenerator[Pool]:
    """Open a pool of up to *size* connections; the first is made before it returns.

    Args:
        dsn: of the connections; a function is asked anew for each of them.
        idle: as for `connect`.

    Raises:
        DatabaseLostError: no connection could be made.
    """
    pool = _Pool(
        dsn,
        min_size=1,
        max_size=size,
        open=False,
        name=application,
        kwargs={"autocommit": True},
        configure=_configure,
        timeout=30,
        reconnect_timeout=5,
    )
    pool.connection_class = pool.watching(application, idle)
    try:
        await pool.open(wait=True, timeout=15)
        yield pool
    except PoolTimeout as error:
        raise DatabaseLostError(f"no database connection within the time: {error}") from error
    finally:
        await pool.close(timeout=5)
