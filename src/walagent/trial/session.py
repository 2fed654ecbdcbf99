"""The one transaction of a trial: every use of a pool is a savepoint in it, and nothing commits."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from walagent.store import trials
from walagent.store.role_reader import RoleReader
from walagent.store.sessions.connections import connect
from walagent.store.sessions.tool_connections import ToolsLogin

Connection = AsyncConnection[Any]

_CONNECTIONS = 8  # that tools count on; uses wait for one another anyway


class HeldPool(AsyncConnectionPool[Connection]):
    """A pool of one connection, in a transaction that somebody else ends.

    What the engine does in a transaction of its own is a savepoint here.  Code of others is
    executed on the connection, so settings and role are reset before each use, by statements
    without a function or operator that could be another's.
    """

    def __init__(self, conn: Connection, deferred: Sequence[tuple[str, str]]) -> None:
        """Take the connection.

        Args:
            deferred: constraints that are deferred at the start of each transaction.
        """
        super().__init__(min_size=0, max_size=_CONNECTIONS, open=False, name="walagent try")
        self._conn = conn
        self._deferred = deferred
        self._free = asyncio.Lock()
        self._user: asyncio.Task[Any] | None = None  # who has the connection

    @asynccontextmanager
    async def connection(self, timeout: float | None = None) -> AsyncGenerator[Connection]:  # noqa: ARG002, ASYNC109 - psycopg's
        """Yield the connection in a savepoint.

        A task that has it already, as one that uses two connections, has it once more.
        """
        if self._user is asyncio.current_task():
            async with self._conn.transaction():
                yield self._conn
            return
        async with self._free:
            self._user = asyncio.current_task()
            try:
                await trials.renew_session(self._conn, self._deferred)
                async with self._conn.transaction():
                    yield self._conn
            finally:
                self._user = None


class HeldReader(RoleReader):
    """Reads as roles on the connection of the trial."""

    def __init__(self, conn: Connection, login: ToolsLogin) -> None:
        """Use the connection for both parts; it is closed elsewhere."""
        super().__init__(conn)
        self._opened = conn, login


@asynccontextmanager
async def open_held(dsn: str) -> AsyncGenerator[Connection]:
    """Open the connection of a trial, in its transaction.

    Nothing is prepared by name: code of others could replace it.
    """
    async with await connect(dsn, application="walagent try") as conn:
        conn.prepare_threshold = None
        async with conn.transaction(force_rollback=True):  # planted: trial-kept
            yield conn
