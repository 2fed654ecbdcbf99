"""The daemon is killed again and again under load, and everything happens once."""

import random

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well, caught_up
from tests.faults.rig.processes import Daemon, pause, running, start_writer
from tests.faults.rig.stage import Place, make_ready
from tests.faults.rig.waiting import until

ENDED = "select (select count(*) from agent.run where agent.is_final(state)) >= %s"


@pytest.mark.parametrize(
    ("changes", "kills"), [(600, 4), pytest.param(10_000, 10, marks=pytest.mark.slow)]
)
async def test_a_daemon_that_is_killed_under_load_loses_nothing_and_doubles_nothing(
    place: Place, chance: random.Random, changes: int, kills: int
) -> None:
    """Each change of the application's own log has one run, one effect, in the order of its row."""
    await make_ready(place)
    with running(start_writer(place, seed=chance.randrange(2**32), changes=changes)) as writer:
        # The last kills fall into the part where the writer has ended and the agents catch up.
        for done in sorted(chance.sample(range(changes), kills)):
            with running(Daemon(place)) as daemon:
                await until(place.conn, ENDED, done, alive=daemon.is_alive, seconds=300)
                await pause(chance.uniform(0, 0.2))
        with running(Daemon(place)) as daemon:
            assert await writer.ended(seconds=300) == 0
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive, seconds=300)
            await all_is_well(place.conn)
            await caught_up(place.conn, place.slot, lag=20 << 20)
