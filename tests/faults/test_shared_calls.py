"""Daemons that are killed while the runs of equal rows wait for one reply."""

import signal

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import Place, make_ready
from tests.faults.rig.waiting import fetch, until

ROWS = 6
CHANGE = """
with new as (
    insert into item select n, 1 from generate_series(1, %s) n returning id, version
)
insert into written (item, version) select * from new
"""
FIRST = "select run_id, content ? 'reused', cost from agent.step where kind = 'reply' and seq = 0"


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("model.asking", 1),
        ("model.answered", 1),
        pytest.param("step.recorded", 1, marks=pytest.mark.slow),
        pytest.param("step.recorded", 3, marks=pytest.mark.slow),
        pytest.param("tool.recorded", 2, marks=pytest.mark.slow),
        pytest.param("run.claimed", 3, marks=pytest.mark.slow),
    ],
)
async def test_kill_9_while_a_call_is_shared_loses_and_doubles_nothing(
    place: Place, point: str, nth: int
) -> None:
    """Each row has its run and its effects once; one reply was paid for, the others have it."""
    await make_ready(place, latency=0.2)
    await place.conn.execute("update agent.agent set reuse = '1 day'")
    with running(Daemon(place, failpoint=f"{point}:{nth}:kill")) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(CHANGE, [ROWS])
        assert await daemon.ended() == -signal.SIGKILL
    with running(Daemon(place)) as daemon:
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
    first = await fetch(place.conn, FIRST)
    assert len(first) == ROWS
    asked = [run for run, reused, _ in first if not reused]
    assert len(asked) == 1
    assert {cost for _, reused, cost in first if reused} == {0}
    assert await fetch(place.conn, "select count(*) from agent_internal.shared_wait") == [(0,)]
