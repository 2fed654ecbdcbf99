"""A PostgreSQL of the test's own, which it may stop and crash."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from psycopg import AsyncConnection

from tests.faults.rig.stage import Place
from tests.servers import SETTINGS, debian_bindir
from walagent.app.migrating import migrate
from walagent.embedded.postmaster import read_postmaster
from walagent.embedded.server import EmbeddedServer


class OwnServer:
    """A server in a folder; its connection string stays the same over restarts."""

    def __init__(self, folder: Path, which: str) -> None:
        """Start nothing yet.

        Args:
            which: as the option --server has it; a connection string stands for the embedded one.
        """
        bindir = debian_bindir() if which == "debian" else None
        self._folder = folder / "pg"
        self._server = EmbeddedServer(self._folder, bindir, settings=SETTINGS)

    @property
    def dsn(self) -> str:
        """How its database is reached, while it runs."""
        return self._server.dsn()

    async def start(self) -> None:
        """Start it."""
        await self._server.start()

    async def stop(self) -> float:
        """Shut it down as `pg_ctl stop -m fast` does; return the seconds that it took."""
        started = time.monotonic()
        await self._server.stop()
        return time.monotonic() - started

    async def crash(self) -> None:
        """Stop it as `pg_ctl stop -m immediate` does: no checkpoint, recovery at the next start."""
        found = read_postmaster(self._folder)
        assert found is not None
        os.kill(found.pid, signal.SIGQUIT)
        await asyncio.to_thread(self._wait)
        await self._server.stop()

    def _wait(self) -> None:
        """Wait until the postmaster's record is gone, which it removes last."""
        deadline = time.monotonic() + 20
        while read_postmaster(self._folder) is not None:
            assert time.monotonic() < deadline, "the server does not stop"
            time.sleep(0.01)


@asynccontextmanager
async def own_server(folder: Path, which: str) -> AsyncIterator[tuple[OwnServer, Place]]:
    """Run a server with one migrated database for the time of the block."""
    server = OwnServer(folder, which)
    await server.start()
    try:
        async with await AsyncConnection.connect(server.dsn, autocommit=True) as conn:
            await migrate(conn)
            yield server, Place(conn, server.dsn, "walagent", folder)
    finally:
        await server.stop()
