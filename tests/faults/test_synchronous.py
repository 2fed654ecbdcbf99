"""No commit of the application waits for a reader, whatever synchronous_standby_names says."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.servers import OwnServer, own_server
from tests.faults.rig.stage import ATTACH, Place, set_up
from tests.faults.rig.waiting import fetch, until
from tests.helpers.sync_process import sync_process
from tests.integration.cli.user import User

OURS = "select from pg_stat_replication where application_name in ('walagent', 'walagent sync')"
INSERT = "insert into item values (%s, 1)"


@pytest.fixture
async def both(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[OwnServer, Place]]:
    """A server of this test's own, and the scene on it."""
    which = str(request.config.getoption("--server"))
    async with own_server(tmp_path, which) as (server, place):
        await set_up(place)
        yield server, place


@contextmanager
def standby(server: OwnServer, folder: Path) -> Iterator[None]:
    """A real receiver of the WAL, which says at once what it has on disk."""
    (folder / "wal").mkdir()
    command = [str(server.bindir / "pg_receivewal"), "-d", server.dsn, "-D", str(folder / "wal")]
    with subprocess.Popen([*command, "--synchronous"], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


async def wait_for(place: Place, names: str) -> None:
    """Set whom commits wait for."""
    await place.conn.execute(f"alter system set synchronous_standby_names = '{names}'".encode())
    await place.conn.execute("select pg_reload_conf()")


@pytest.mark.slow
async def test_a_reader_that_commits_would_wait_for_leaves(
    both: tuple[OwnServer, Place], tmp_path: Path
) -> None:
    """Until the setting names standbys; what was written meanwhile has its run then."""
    server, place = both
    with standby(server, tmp_path), running(Daemon(place)) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(ATTACH.encode())
        await daemon.has_said("attachment.activated")
        for n, names in enumerate(["*", 'FIRST 1 ("WalAgent", pg_receivewal)']):
            await wait_for(place, names)
            await until(place.conn, f"select not exists ({OURS})")
            async with asyncio.timeout(10):
                await place.conn.execute(INSERT, [n])
            async with asyncio.timeout(30):
                while "synchronous_standby_names" not in daemon.said:  # noqa: ASYNC110 - a log
                    await asyncio.sleep(0.05)
            found = await asyncio.to_thread(User(place.folder, server.dsn).types, "doctor")
            assert "a synchronous standby" in found.out
            await wait_for(place, "pg_receivewal")
            await until(place.conn, f"select exists (select from agent.run where key = '{n}')")


async def test_nor_do_commits_wait_for_a_reader_of_live_rows(
    both: tuple[OwnServer, Place], tmp_path: Path
) -> None:
    """It has a temporary slot, and the same rule."""
    server, place = both
    async with sync_process(server.dsn, tmp_path) as process:
        await wait_for(place, "*")
        await until(place.conn, f"select not exists ({OURS})")
        await process.says("reader.waiting")
        await wait_for(place, "")
        await process.says("reader.streaming")
        assert await fetch(place.conn, OURS)
