"""Connections that read rows of shapes, kept while the database can be reached."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base.retries import of, repeat
from walagent.errors import (
    ConflictError,
    DatabaseLostError,
    LoginRefusedError,
    PreconditionError,
)
from walagent.store.errors import translating
from walagent.store.sessions.connections import Pool, open_pool
from walagent.store.sessions.rows_login import check_rows_login, derived_dsn, let_read
from walagent.store.sessions.tool_connections import DISCARD
from walagent.sync.checks import ShapeRefusedError
from walagent.telemetry.log import log

_NAME: Final = "walagent sync"
_CONNECTIONS: Final = 8
_NOT_GRANTED: Final = "42501"


class RowPool:
    """The pool of a process; while the database is unavailable, requests wait.

    Args:
        dsn: the login of its connections.
        name: of its connections.
        discard: statements that end what a use has left in its session, where that can be code of
            others; then nothing is prepared by name, which such code could replace.
    """

    def __init__(self, dsn: Callable[[], str], name: str = _NAME, *, discard: str = "") -> None:
        self._dsn = dsn
        self._name = name
        self._discard = discard
        self._pool: asyncio.Future[Pool] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Keep the pool open; does not end."""

        async def keep() -> None:
            async with open_pool(
                self._dsn,
                size=_CONNECTIONS,
                application=self._name,
                discard=self._discard,
            ) as pool:
                self._pool.set_result(pool)
                await asyncio.Event().wait()

        await repeat(
            keep,
            of(DatabaseLostError, LoginRefusedError),
            lambda error: log.warning("sync.waiting", error=error),
        )

    @property
    def dsn(self) -> str:
        """The connection string of its next connection."""
        return self._dsn()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Use a connection, in autocommit mode."""
        with translating():
            pool = await asyncio.shield(self._pool)
            async with pool.connection() as conn:
                yield conn


class OpenRows:
    """Connections that read the rows of open tables, as a login that can do nothing else.

    Args:
        login: connections of the process's own login.
        rows_dsn: returns how the login that reads is reached, if it is set.
    """

    def __init__(self, login: RowPool, rows_dsn: Callable[[], str]) -> None:
        self._login = login
        self._given = rows_dsn
        self._derived = ""
        self._checked = ""  # the connection string of the login that was found last
        self._pool = RowPool(self._dsn, "walagent rows", discard=DISCARD)
        self._wanted = asyncio.Event()
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Open the pool when it is wanted; does not end."""
        await self._wanted.wait()
        await self._pool.run()

    async def let_read(self, schema: str, table: str) -> None:
        """Let the login read a table, if this process may; else the log has the statement.

        Raises:
            ShapeRefusedError: there is no login that reads, or the table is locked.
        """
        try:
            await self._find()
            async with self._login.connection() as conn:
                await let_read(conn, self._dsn(), schema, table)
        except ConflictError as error:
            raise ShapeRefusedError(503, "the table is being changed; try again") from error
        except PreconditionError as error:
            log.warning("sync.table_refused", table=table, error=error, hint=error.hint)
            if error.sqlstate != _NOT_GRANTED:
                raise ShapeRefusedError(503, "no rows can be read; the log says why") from error

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Use a connection, in autocommit mode.

        Raises:
            PreconditionError: there is no login that code of others could not misuse.
        """
        await self._find()
        async with self._pool.connection() as conn:
            yield conn

    def _dsn(self) -> str:
        return self._given() or self._derived or self._login.dsn

    async def _find(self) -> None:
        """Find the login, and check the one that a reload has put in its place."""
        async with self._lock:
            if self._checked and self._checked == self._dsn():
                return
            if not self._given():
                async with self._login.connection() as conn:
                    self._derived = await derived_dsn(conn, self._login.dsn)
            found = self._dsn()
            if self._given() or not self._derived:
                with translating():
                    await check_rows_login(found)
            self._checked = found
            self._wanted.set()
