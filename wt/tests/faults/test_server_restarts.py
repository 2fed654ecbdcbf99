"""The server is stopped and crashes under load, and the daemon comes back by itself."""

import asyncio
import random
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, free_port, pause, running, start_writer
from tests.faults.rig.servers import OwnServer, own_server
from tests.faults.rig.stage import ATTACH, Place, set_up
from tests.faults.rig.waiting import connect_again, until, until_true

PATIENCE = 10.0  # seconds that a server may need to stop with us connected
ENDED = "select (select count(*) from agent.run where agent.is_final(state)) >= %s"


@pytest.fixture
async def own(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[OwnServer, Place]]:
    """A server of this test's own, and the scene on it."""
    async with own_server(tmp_path, str(request.config.getoption("--server"))) as (server, place):
        await set_up(place)
        yield server, place


async def readiness(port: int) -> int:
    """What /readyz answers now; 0 when nobody listens yet."""

    def ask() -> int:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return answer.status
        except HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    return await asyncio.to_thread(ask)


async def is_ready(port: int, *, seconds: float = 60.0, expected: int = HTTPStatus.OK) -> None:
    """Wait for an answer of /readyz."""

    async def answers() -> bool:
        return await readiness(port) == expected

    await until_true(answers, f"/readyz answers {expected}", seconds=seconds)


def settings(port: int) -> dict[str, dict[str, Any]]:
    """Of a daemon that can be asked how it is."""
    return {"http": {"enabled": True, "port": port}}


@pytest.mark.parametrize(
    ("changes", "stops"),
    [
        (300, ("fast", "immediate")),
        pytest.param(4000, ("fast", "immediate") * 4, marks=pytest.mark.slow),
    ],
)
async def test_a_server_that_restarts_under_load_costs_nothing(
    own: tuple[OwnServer, Place], chance: random.Random, changes: int, stops: tuple[str, ...]
) -> None:
    """No change is lost or doubled, no shutdown waits for us, and /readyz tells of it all."""
    server, place = own
    port = free_port()
    with running(Daemon(place, settings=settings(port))) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(ATTACH.encode())
        await daemon.has_said("attachment.active")
        with running(start_writer(place, seed=chance.randrange(2**32), changes=changes)) as writer:
            for number, stop in enumerate(stops):
                moment = changes * (number + chance.random()) / len(stops)
                async with await connect_again(place.dsn) as conn:
                    await until(conn, ENDED, int(moment), alive=daemon.is_alive, seconds=300)
                await pause(chance.uniform(0, 0.1))
                if stop == "fast":
                    assert await server.stop() < PATIENCE
                else:
                    await server.crash()
                await is_ready(port, expected=HTTPStatus.SERVICE_UNAVAILABLE)
                await server.start()
                await is_ready(port)
            assert await writer.ended(seconds=300) == 0
        async with await connect_again(place.dsn) as conn:
            await until(conn, ALL_ENDED, alive=daemon.is_alive, seconds=300)
            await all_is_well(conn)


async def test_a_server_that_stops_does_not_wait_for_an_idle_daemon(
    own: tuple[OwnServer, Place],
) -> None:
    """It waits until all of its WAL is confirmed, also what no attached table has to do with."""
    server, place = own
    with running(Daemon(place)) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute("create table elsewhere as select generate_series(1, 1000)")
        assert await server.stop() < PATIENCE
        daemon.is_alive()
