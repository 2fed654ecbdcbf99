"""Connections to the database, all set up alike: orjson for JSON, durable commits, our name."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from psycopg import AsyncConnection, OperationalError
from psycopg.adapt import AdaptersMap
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from walagent.errors import DatabaseLostError
from walagent.message import Json

Pool = AsyncConnectionPool[AsyncConnection[Any]]

_TCP: dict[str, Any] = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "connect_timeout": 10,
}


def _dumps(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def _prepare(context: AdaptersMap | AsyncConnection[Any]) -> None:
    set_json_loads(orjson.loads, context)
    set_json_dumps(_dumps, context)


async def _configure(conn: AsyncConnection[Any]) -> None:
    """Make commits durable before they are reported, whatever the role's or database's default.

    A ledger that was reported durable and then lost in a crash would lose its changes for ever.
    A stricter setting (remote_apply) stays.
    """
    _prepare(conn)
    await conn.execute(
        "select set_config('synchronous_commit', 'on', false)"
        " where current_setting('synchronous_commit') in ('off', 'local')"
    )


async def connect(dsn: str, *, application: str = "walagent") -> AsyncConnection[Any]:
    """Open a connection in autocommit mode.

    Raises:
        DatabaseLostError: the server cannot be reached, or refuses us for now.
    """
    try:
        conn = await AsyncConnection.connect(
            dsn, autocommit=True, application_name=application, **_TCP
        )
    except OperationalError as error:
        raise DatabaseLostError(f"cannot connect: {str(error).strip()}") from error
    await _configure(conn)
    return conn


@asynccontextmanager
async def open_pool(dsn: str, *, size: int, application: str) -> AsyncGenerator[Pool]:
    """Open a pool of up to *size* connections; the first is made before it returns.

    Raises:
        DatabaseLostError: no connection could be made.
    """
    pool: Pool = AsyncConnectionPool(
        dsn,
        min_size=1,
        max_size=size,
        open=False,
        name=application,
        kwargs={"autocommit": True, "application_name": application, **_TCP},
        configure=_configure,
        timeout=30,
        reconnect_timeout=5,
    )
    try:
        await pool.open(wait=True, timeout=15)
        yield pool
    except PoolTimeout as error:
        raise DatabaseLostError(f"no database connection within the time: {error}") from error
    finally:
        await pool.close(timeout=5)
