"""The server stops, crashes, dies and stays away under load; the daemon comes back by itself."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.probing import always_alive, doorbell, is_not_ready, is_ready, manager
from tests.faults.rig.processes import (
    LEASE,
    Daemon,
    FreshDaemon,
    free_port,
    pause,
    running,
    start_writer,
)
from tests.faults.rig.servers import OwnServer, own_server
from tests.faults.rig.stage import ATTACH, Figure, Place, set_up
from tests.faults.rig.waiting import connect_again, until

pytestmark = pytest.mark.scenario(3)

PATIENCE = 10.0  # seconds that a server may need to stop with us connected
ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
WATCHDOG = 10.0  # seconds that systemd would wait for a sign of life
STARVES = 3 * LEASE + 0.5 + 30  # seconds without a turn after which the watchdog is fed no more
TOOL = 3  # seconds that a tool may take; the server's absence is not its fault
STORM = 200  # tries to connect, of all parts together; without pauses there were thousands
FLAT = 8 << 20  # bytes by which memory may grow while there is nothing to do


@pytest.fixture
async def own(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[OwnServer, Place]]:
    """A server of this test's own, and the scene on it."""
    async with own_server(tmp_path, str(request.config.getoption("--server"))) as (server, place):
        await set_up(place)
        yield server, place


def settings(port: int) -> dict[str, dict[str, Any]]:
    """Of a daemon that can be asked how it is."""
    return {"http": {"enabled": True, "port": port}}


async def take_away(server: OwnServer, stop: str) -> None:
    """Stop the server in one of three ways."""
    match stop:
        case "fast":
            assert await server.stop() < PATIENCE
        case "immediate":
            await server.crash()
        case _:
            await server.kill()


@pytest.mark.parametrize(
    ("changes", "stops"),
    [
        (80, ("immediate",)),
        pytest.param(300, ("fast", "immediate", "killed"), marks=pytest.mark.slow),
        pytest.param(2500, ("fast", "immediate", "killed") * 2, marks=pytest.mark.slow),
    ],
)
async def test_a_server_that_restarts_under_load_costs_nothing(
    own: tuple[OwnServer, Place],
    chance: random.Random,
    figure: Figure,
    changes: int,
    stops: tuple[str, ...],
) -> None:
    """No change is lost or doubled, no shutdown waits for us, and /readyz tells of it all."""
    server, place = own
    port = free_port()
    with running(Daemon(place, settings=settings(port))) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(ATTACH.encode())
        await daemon.has_said("attachment.activated")
        with running(start_writer(place, seed=chance.randrange(2**32), changes=changes)) as writer:
            async with always_alive(port):
                for number, stop in enumerate(stops):
                    moment = changes * (number + chance.random()) / len(stops)
                    async with await connect_again(place.dsn) as conn:
                        await until(conn, ENDED, int(moment), alive=daemon.is_alive, seconds=300)
                    await pause(chance.uniform(0, 0.1))
                    await take_away(server, stop)
                    await is_not_ready(port)
                    await server.start()
                    figure("back after a restart", await is_ready(port), "s")
            assert await writer.ended(seconds=300) == 0
        async with await connect_again(place.dsn) as conn:
            await until(conn, ALL_ENDED, alive=daemon.is_alive, seconds=300)
            await all_is_well(conn)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [6.0, pytest.param(STARVES + 10.0, marks=pytest.mark.slow)])
async def test_an_outage_costs_nothing_but_its_time(
    own: tuple[OwnServer, Place], chance: random.Random, figure: Figure, seconds: float
) -> None:
    """The daemon asks less and less often, does not grow, and is not restarted for it."""
    server, place = own
    port = free_port()
    with (
        manager(WATCHDOG) as systemd,
        running(
            FreshDaemon(place, settings=settings(port), environment=systemd.environment)
        ) as daemon,
    ):
        await daemon.has_said("reader.streaming")
        await place.conn.execute("update agent.tool set timeout_seconds = %s", [TOOL])
        await place.conn.execute(ATTACH.encode())
        await daemon.has_said("attachment.activated")
        with running(start_writer(place, seed=chance.randrange(2**32), changes=200)) as writer:
            await until(place.conn, ENDED, 100, alive=daemon.is_alive)
            await server.kill()
            await is_not_ready(port)
            async with always_alive(port), doorbell(server.socket) as rung:
                await pause(1)
                before = daemon.rss
                await pause(seconds)
                grown = daemon.rss - before
                assert await systemd.is_fed(WATCHDOG)
            figure("tries to connect in a minute of outage", rung.total() / (seconds + 1) * 60)
            figure("memory grown in an outage", grown / 2**20, "MB")
            await server.start()
            figure("back after an outage", await is_ready(port), "s")
            assert await writer.ended(seconds=300) == 0
        assert grown < FLAT
        assert rung.total() < STORM
        async with await connect_again(place.dsn) as conn:
            await until(conn, ALL_ENDED, alive=daemon.is_alive, seconds=300)
            await all_is_well(conn)


@pytest.mark.slow
async def test_a_daemon_that_starts_before_its_server_waits_for_it(
    own: tuple[OwnServer, Place],
) -> None:
    """After a power cut nobody knows who comes up first."""
    server, place = own
    await server.stop()
    with running(Daemon(place)) as daemon:
        await daemon.has_said("daemon.waiting", times=2)
        await server.start()
        await daemon.has_said("reader.streaming")


@pytest.mark.slow
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
