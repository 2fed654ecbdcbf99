"""Connections that read rows of shapes, kept while the database can be reached."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base.retries import of, repeat
from walagent.errors import DatabaseLostError, LoginRefusedError
from walagent.store.errors import translating
from walagent.store.sessions.connections import Pool, open_pool
from walagent.telemetry.log import log

_NAME: Final = "walagent sync"
_CONNECTIONS: Final = 8


class RowPool:
    """The pool of a process; while the database is unavailable, requests wait.

    Args:
        dsn: the login that reads snapshots.
    """

    def __init__(self, dsn: Callable[[], str]) -> None:
        self._dsn = dsn
        self._pool: asyncio.Future[Pool] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Keep the pool open; does not end."""

        async def keep() -> None:
            async with open_pool(self._dsn, size=_CONNECTIONS, application=_NAME) as pool:
                self._pool.set_result(pool)
                await asyncio.Event().wait()

        await repeat(
            keep,
            of(DatabaseLostError, LoginRefusedError),
            lambda error: log.warning("sync.waiting", error=error),
        )

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Use a connection, in autocommit mode."""
        with translating():
            pool = await asyncio.shield(self._pool)
            async with pool.connection() as conn:
                yield conn
