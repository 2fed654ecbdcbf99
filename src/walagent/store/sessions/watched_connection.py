"""A connection that checks its backend when a reply takes long.

A reply can be lost although the connection does not end: a proxy hangs, a firewall drops its state,
a server is frozen.  TCP detects this only if no proxy acknowledges in the server's place.  So while
a statement takes long, a second connection asks the server whether the backend is still active.
While it is, the statement continues.  If it is not, or the server does not reply there either, the
connection is closed, and the outcome of the statement is determined as after any lost connection.

Conversely, a client can disappear, and its open transaction holds locks.  An idle backend is
terminated by the same check; one whose host has disappeared ends by the server's keepalives
(`walagent.postgres.connection`).
"""

import asyncio
from typing import Any, Final, Self, TypeVar

from psycopg import AsyncConnection, OperationalError
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from walagent.errors import DatabaseLostError, LoginRefusedError
from walagent.postgres.connection import OWN_PATH, hang_up, open_connection
from walagent.telemetry.log import log

T = TypeVar("T")

PATIENCE: Final = 10.0  # seconds until a reply is checked, and until the check fails
_FULL: Final = "53300"  # too_many_connections
_STATE: Final = """
select pg_backend_pid(), (select state from pg_stat_activity where pid = %(pid)s),
       exists (select from pg_stat_activity where pid = %(pid)s)
"""
_END: Final = "select pg_terminate_backend(%(pid)s)"
_AT_REST: Final = ("idle", "idle in transaction", "idle in transaction (aborted)")


class WatchedConnection(AsyncConnection[Any]):
    """A connection that does not wait for a reply that no backend will send."""

    _reached: tuple[str, str] = ("", "")  # the connection string, and the application name
    _asking: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:  # noqa: ANN401 - psycopg's
        """Connect, and store the parameters for the check."""
        conn = await super().connect(conninfo, **kwargs)
        conn._reached = (conninfo, kwargs.get("application_name", ""))  # noqa: SLF001 - of this class
        return conn

    async def wait(
        self,
        gen: PQGen[T],
        interval: float = 0.1,
        timeout: float | None = None,  # noqa: ASYNC109 - psycopg's
    ) -> T:
        """Wait for libpq; every round trip calls this."""
        doubt = asyncio.get_running_loop().call_later(PATIENCE, self._doubt)
        try:
            return await super().wait(gen, interval, timeout)
        finally:
            doubt.cancel()
            if self._asking is not None:
                self._asking.cancel()
                self._asking = None

    def _doubt(self) -> None:
        if self.pgconn.transaction_status == TransactionStatus.ACTIVE:  # else it listens
            self._asking = asyncio.create_task(self._ask(), name="asking after a backend")

    async def _ask(self) -> None:
        while await self._is_at_work():  # noqa: ASYNC110 - no event reports its end
            await asyncio.sleep(PATIENCE)
        log.warning("connection.stalled", application=self._reached[1])
        hang_up(self)

    async def _is_at_work(self) -> bool:
        """Return whether the backend is active, or the server is up and cannot tell."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._may_be_at_work()
        except (TimeoutError, OperationalError):
            return False
        except DatabaseLostError as error:
            return error.sqlstate == _FULL
        except LoginRefusedError:
            return True

    async def _may_be_at_work(self) -> bool:
        conninfo, _ = self._reached
        info = self.info  # of several hosts, the connected one
        async with await open_connection(
            AsyncConnection[Any],
            conninfo,
            "walagent asking",
            OWN_PATH,
            host=info.host,
            hostaddr=info.hostaddr or None,
            port=info.port,
        ) as other:
            pid = info.backend_pid
            row = await (await other.execute(_STATE, {"pid": pid})).fetchone()
            if row is None or row[0] != other.info.backend_pid:
                return True  # a pooler, whose PIDs are not the server's
            _, state, exists = row
            if exists and state in _AT_REST:
                await other.execute(_END, {"pid": pid})  # its transaction might be open
            return exists and state not in _AT_REST
