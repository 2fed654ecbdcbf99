"""A connection that asks after its backend when an answer takes long.

An answer can be lost without an end of the connection: a proxy hangs, a firewall forgets, a server
is frozen.  TCP notices only where nobody on the way acknowledges in its place.  So a statement that
has taken a while makes us ask the server, over a connection of its own, whether that backend is
still at work.  If it is, we wait on, however long it takes.  If not, or if nobody answers there
either, we hang up, and what became of the statement is found out as after any lost connection.

The other way round, a client can be gone without a word, and its open transaction holds its locks.
A backend of ours that rests is ended when we ask; one whose host is gone ends by the keepalives of
the server's side (`walagent.connection`).
"""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from psycopg import AsyncConnection, OperationalError
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from walagent.connection import open_connection
from walagent.errors import DatabaseLostError, LoginRefusedError
from walagent.log import log

T = TypeVar("T")

PATIENCE: Final = 10.0  # seconds that an answer may take before we ask, and the answer to that
_FULL: Final = "53300"  # too_many_connections
_STATE: Final = """
select pg_backend_pid(), (select state from pg_stat_activity where pid = %s),
       exists (select from pg_stat_activity where pid = %s)
"""
_END: Final = "select pg_terminate_backend(%s)"
_AT_REST: Final = ("idle", "idle in transaction", "idle in transaction (aborted)")


class Session(AsyncConnection[Any]):
    """One that does not wait for ever for an answer that nobody is working on."""

    _reached: tuple[str, str] = ("", "")  # the connection string, and the name of the connection
    _asking: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:  # noqa: ANN401 - psycopg's
        """Connect, and keep how: asking takes the same way."""
        conn = await super().connect(conninfo, **kwargs)
        conn._reached = (conninfo, kwargs.get("application_name", ""))  # noqa: SLF001 - one of ours
        return conn

    async def wait(
        self,
        gen: PQGen[T],
        interval: float = 0.1,
        timeout: float | None = None,  # noqa: ASYNC109 - psycopg's
    ) -> T:
        """Wait for what libpq does next; each round trip comes through here."""
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
        while await self._is_at_work():  # noqa: ASYNC110 - nobody tells us when it is done
            await asyncio.sleep(PATIENCE)
        log.warning("connection.stalled", application=self._reached[1])
        self._hang_up()

    async def _is_at_work(self) -> bool:
        """Whether the server says so, or at least is there and cannot tell."""
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
        info = self.info  # of several servers, the one that we reached
        async with await open_connection(
            AsyncConnection[Any],
            conninfo,
            "walagent asking",
            host=info.host,
            hostaddr=info.hostaddr or None,
            port=info.port,
        ) as other:
            pid = info.backend_pid
            row = await (await other.execute(_STATE, [pid, pid])).fetchone()
            if row is None or row[0] != other.info.backend_pid:
                return True  # a pooler stands between, whose numbers are not the server's
            _, state, exists = row
            if exists and state in _AT_REST:
                await other.execute(_END, [pid])  # its transaction may be open
            return exists and state not in _AT_REST

    def _hang_up(self) -> None:
        """End the connection below libpq, whose wait then ends as with any lost connection."""
        with (
            suppress(OSError, OperationalError),
            socket.socket(fileno=os.dup(self.pgconn.socket)) as wire,
        ):
            wire.shutdown(socket.SHUT_RDWR)
