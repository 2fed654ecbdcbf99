"""systemd's watchdog is fed by a daemon that turns, and by no other."""

import signal
from http import HTTPStatus

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.probing import ask, is_ready, manager
from tests.faults.rig.processes import Daemon, free_port, running
from tests.faults.rig.stage import Figure, Place, make_ready
from tests.faults.rig.waiting import until

pytestmark = pytest.mark.scenario(18)

WATCHDOG = 2.0  # seconds that systemd would wait
SILENCE = 2 * WATCHDOG
LOOK_WAITS = """
select exists (select from pg_locks where relation = 'agent.approval'::regclass and not granted)
"""
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""


@pytest.mark.parametrize(
    "point",
    [
        "intake.runs_inserted",
        *(
            pytest.param(point, marks=pytest.mark.slow)
            for point in ("model.asking", "tool.started")
        ),
    ],
)
async def test_a_daemon_that_hangs_is_silent_and_its_successor_does_the_work(
    place: Place, figure: Figure, point: str
) -> None:
    """Whatever part of it hangs: systemd hears nothing, /healthz does not answer, a kill helps."""
    await make_ready(place)
    port = free_port()
    web = {"http": {"enabled": True, "port": port}}
    with manager(WATCHDOG) as systemd:
        variables = systemd.environment
        hangs = Daemon(place, settings=web, failpoint=f"{point}:stall", environment=variables)
        with running(hangs):
            await systemd.hears("READY=1")
            await place.conn.execute(WRITE, [1])
            figure("silence of a daemon that hangs", await systemd.falls_silent(SILENCE), "s")
            assert await ask(port, "/healthz", patience=2) == (0, {})
            hangs.signal(signal.SIGABRT)  # as systemd does
            assert await hangs.ended() == -signal.SIGABRT
    with manager(WATCHDOG) as systemd:
        daemon = Daemon(place, settings=web, environment=systemd.environment)
        with running(daemon):
            await is_ready(port)
            assert await ask(port, "/healthz") == (HTTPStatus.OK, {"status": "alive"})
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
            await all_is_well(place.conn)
            assert await systemd.is_fed(WATCHDOG)
            daemon.signal(signal.SIGTERM)
            await systemd.hears("STOPPING=1")
            assert await daemon.ended() == 0


@pytest.mark.slow
async def test_somebodys_lock_on_our_tables_does_not_starve_it(place: Place) -> None:
    """A restart would not help: the reader's look does without, and comes around."""
    await make_ready(place)
    port = free_port()
    web = {"http": {"enabled": True, "port": port}}
    with (
        manager(WATCHDOG) as systemd,
        running(Daemon(place, settings=web, environment=systemd.environment)) as daemon,
    ):
        await systemd.hears("READY=1")
        async with await AsyncConnection.connect(place.dsn) as other:
            await other.execute("lock table agent.approval in access exclusive mode")
            await until(place.conn, LOOK_WAITS, alive=daemon.is_alive)
            with pytest.raises(AssertionError, match="signs of life go on"):
                await systemd.falls_silent(3 * SILENCE, patience=4 * SILENCE)
            assert await ask(port, "/healthz") == (HTTPStatus.OK, {"status": "alive"})
        daemon.is_alive()
