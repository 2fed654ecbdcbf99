"""The daemon is killed again and again under load, and everything happens once."""

import random
from dataclasses import dataclass
from itertools import islice

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well, caught_up
from tests.faults.rig.processes import Daemon, pause, running, start_writer
from tests.faults.rig.stage import ATTACH_ALL, Place, add_model, make_ready
from tests.faults.rig.waiting import fetch, until
from walagent.wal.options import Plugin

KILLED = -9
ENDED = "select (select count(*) from agent.run where agent.is_final(state)) >= %s"


@dataclass(frozen=True, slots=True)
class Load:
    """What is written, how often the daemon is killed, and the bytes it may keep back at the end.

    What no run needs is confirmed after half a minute, or 16 MB.
    """

    changes: int
    kills: int
    plugin: Plugin = "pgoutput"
    lag: int = 20 << 20


LOADS = [
    pytest.param(Load(600, 4), id="short"),
    pytest.param(Load(10_000, 10, lag=64 << 10), id="long", marks=pytest.mark.slow),
    pytest.param(
        Load(3000, 6, "wal2json"), id="wal2json", marks=[pytest.mark.slow, pytest.mark.wal2json]
    ),
]


@pytest.mark.parametrize("load", LOADS)
async def test_a_daemon_that_is_killed_under_load_loses_nothing_and_doubles_nothing(
    place: Place, chance: random.Random, load: Load
) -> None:
    """Each change of the application's own log has one run, one effect, in the order of its row."""
    await make_ready(place, plugin=load.plugin, attach=ATTACH_ALL)
    settings = {"replication": {"plugin": load.plugin}}
    with running(start_writer(place, seed=chance.randrange(2**32), changes=load.changes)) as writer:
        # The last kills fall into the part where the writer has ended and the agents catch up.
        for done in sorted(chance.sample(range(load.changes), load.kills)):
            with running(Daemon(place, settings=settings)) as daemon:
                await until(place.conn, ENDED, done, alive=daemon.is_alive, seconds=300)
                await pause(chance.uniform(0, 0.2))
        with running(Daemon(place, settings=settings)) as daemon:
            assert await writer.ended(seconds=300) == 0
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive, seconds=300)
            await all_is_well(place.conn)
            await caught_up(place.conn, place.slot, lag=load.lag)


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
async def test_a_run_that_kills_its_worker_again_and_again_is_given_up(place: Place) -> None:
    """Attempts are counted before they begin, so the others get their turn."""
    await make_ready(place)
    await add_model(place, "poison", {"replies": [{"call": "kill_the_worker"}]})
    with running(Daemon(place)) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(POISON)
        await daemon.has_said("attachment.active", times=2)
        await place.conn.execute(WRITE, [1])
        assert await daemon.ended() == KILLED
    with running(Daemon(place)) as daemon:
        assert await daemon.ended() == KILLED
    with running(Daemon(place)) as daemon:
        await until(place.conn, ENDED, 2, alive=daemon.is_alive)
        dead = "select attempt, error ->> 'reason' from agent.run where state = 'dead'"
        ((attempt, reason),) = await fetch(place.conn, dead)
        assert attempt == 2
        assert "the worker was lost 2 times" in reason
        assert await fetch(place.conn, "select count(*) from effect") == [(2,)]
