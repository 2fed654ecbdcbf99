"""The daemon is killed again and again under load, and everything happens once."""

import random
import signal
from dataclasses import dataclass
from itertools import islice

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well, caught_up
from tests.faults.rig.processes import Daemon, pause, running, start_writer
from tests.faults.rig.provider import Provider, asked_as_promised, excuse
from tests.faults.rig.stage import ATTACH_ALL, Figure, Place, add_model, make_ready
from tests.faults.rig.waiting import fetch, until
from walagent.wal.options import Plugin

KILLED = -9
SLOTS = 10  # few runs that each death leaves to its lease
WINDOW = 300  # changes: more than the dead hold at any time
ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
RUNS = "select count(*) from agent.run"


@dataclass(frozen=True, slots=True)
class Load:
    """How often the daemon is killed, and the bytes it may keep back at the end.

    What no run needs is confirmed after half a minute, or 16 MB.  The lease is one that a starved
    machine does not miss: who misses it is asked again, and has not died.
    """

    kills: int
    lease: float = 8.0  # seconds
    plugin: Plugin = "pgoutput"
    lag: int = 20 << 20


LOADS = [
    pytest.param(Load(3, lease=3), id="short"),
    pytest.param(Load(100), id="first hundred", marks=pytest.mark.slow),
    pytest.param(Load(100, lag=64 << 10), id="second hundred", marks=pytest.mark.slow),
    pytest.param(
        Load(20, plugin="wal2json"), id="wal2json", marks=[pytest.mark.slow, pytest.mark.wal2json]
    ),
]


@pytest.mark.slow
@pytest.mark.scenario(1)
@pytest.mark.parametrize("load", LOADS)
async def test_a_daemon_that_is_killed_under_load_loses_nothing_and_doubles_nothing(
    place: Place, chance: random.Random, figure: Figure, load: Load
) -> None:
    """Each change of the application's own log has one run, one effect, in the order of its row."""
    settings = {
        "replication": {"plugin": load.plugin},
        "workers": {"lease": load.lease, "slots": SLOTS},
    }
    with running(Provider(place, latency=0.02)) as provider:
        await provider.is_up()
        await make_ready(place, attach=ATTACH_ALL, plugin=load.plugin, provider=provider.url)
        seed = chance.randrange(2**32)
        with running(start_writer(place, seed=seed, window=WINDOW)) as writer:
            for _ in range(load.kills):
                with running(Daemon(place, settings=settings)) as daemon:
                    await pause(chance.uniform(0.05, 1.5))  # while it starts, or at work
                    daemon.is_alive()
                await excuse(place.conn)
            writer.signal(signal.SIGTERM)
            assert await writer.ended() == 0
        # The last one is an interpreter of its own from the start, as an operator has it.
        with running(Daemon(place, settings=settings)) as daemon:
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
            await all_is_well(place.conn)
            await caught_up(place.conn, place.slot, lag=load.lag)
        again = await asked_as_promised(place.conn, provider)
    figure("kills at random under load", load.kills)
    figure("runs beside those", (await fetch(place.conn, RUNS))[0][0])
    figure("answers asked for again after those", again)


BACKFILL = """
select agent.attach('item', 'model=script, tools=[note_change, note_in_python], writes=[status],
    bind=[item=id, version=version], backfill=true, max_attempts=50');
"""
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
BACKFILLED = "select exists (select from agent.backfill where state = 'done')"
REASONS = "select reason, count(*) from agent.run group by 1 order by 1"


@pytest.mark.slow
@pytest.mark.scenario(1)
async def test_a_backfill_that_is_killed_brings_each_row_once(
    place: Place, chance: random.Random
) -> None:
    """Rows that were there have one run each, and so have those that come meanwhile."""
    await make_ready(place, attach="")
    old, new = range(1, 1201), iter(range(1201, 1301))
    for number in old:
        await place.conn.execute(WRITE, [number])
    await place.conn.execute(BACKFILL.encode())
    for done in sorted(chance.sample(range(len(old)), 5)):
        with running(Daemon(place)) as daemon:
            await daemon.has_said("reader.streaming")
            for number in islice(new, 20):
                await place.conn.execute(WRITE, [number])
            await until(place.conn, ENDED, done, alive=daemon.is_alive)
            await pause(chance.uniform(0, 0.2))
    with running(Daemon(place)) as daemon:
        await until(place.conn, BACKFILLED, alive=daemon.is_alive)
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
    assert await fetch(place.conn, REASONS) == [("backfill", 1200), ("change", 100)]


POISON = """
select agent.attach('item', 'model=poison, tools=[kill_the_worker], name=poison, max_attempts=2')
"""


@pytest.mark.slow
@pytest.mark.scenario(1)
async def test_a_run_that_kills_its_worker_again_and_again_is_given_up(place: Place) -> None:
    """Attempts are counted before they begin, so the others get their turn."""
    await make_ready(place)
    await add_model(place, "poison", {"replies": [{"call": "kill_the_worker"}]})
    with running(Daemon(place)) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(POISON)
        await daemon.has_said("attachment.activated", times=2)
        await place.conn.execute(WRITE, [1])
        assert await daemon.ended() == KILLED
    with running(Daemon(place)) as daemon:
        assert await daemon.ended() == KILLED
    with running(Daemon(place)) as daemon:
        await until(place.conn, ENDED, 2, alive=daemon.is_alive)
        dead = "select attempt, error ->> 'reason' from agent.run where state = 'dead'"
        ((attempt, reason),) = await fetch(place.conn, dead)
        assert attempt == 2
        assert "lost the worker of this run 2 times" in reason
        assert await fetch(place.conn, "select count(*) from effect") == [(2,)]
