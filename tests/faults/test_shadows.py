"""Daemons that are killed while they try changes with a version of which nothing is kept."""

import signal

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import CLOCK, Place, let_time_pass, make_ready
from tests.faults.rig.waiting import fetch, until
from walagent.base import faults

ROWS = 3
CHANGE = """
with new as (
    insert into item select n, 1 from generate_series(1, %s) n returning id, version
)
insert into written (item, version) select * from new
"""
SHADOW = """
update agent.model set input_price = 1, output_price = 5;
insert into agent.budget (name, period, max_cost) values ('all', 'total', 1000);
select agent.shadow(name, 'system_prompt="Be kind."') from agent.attachment;
"""
ALL_TRIED = "select count(*) = %s and bool_and(outcome <> 'waiting') from agent.shadow_run"
CASES = "select run_id, count(*), min(outcome) from agent.shadow_run group by 1 order by 1"
LEFT = """
select (select count(*) from agent_internal.trial),
       (select count(*) from agent_internal.shadowed_run where claimed_until is not null),
       (select sum(reserved_cost) from agent_internal.budget_use)
"""


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        pytest.param(point, nth, marks=[] if (point, nth) == often else pytest.mark.slow)
        for often in [("shadow.tried", 2)]
        for point in faults.SHADOW_POINTS
        for nth in (1, 2)
    ],
)
async def test_kill_9_in_a_shadow_keeps_nothing_and_tries_each_change_once(
    place: Place, point: str, nth: int
) -> None:
    """The runs are as without it; each change has one case; nothing stays reserved."""
    await make_ready(place)
    await place.conn.execute(CLOCK)
    with running(Daemon(place, failpoint=f"{point}:{nth}:kill")) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(SHADOW.encode())
        await daemon.has_said("attachment.activated")
        await place.conn.execute(CHANGE, [ROWS])
        assert await daemon.ended() == -signal.SIGKILL
    await let_time_pass(place.conn)
    with running(Daemon(place)) as daemon:
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await until(place.conn, ALL_TRIED, ROWS, alive=daemon.is_alive)
        await all_is_well(place.conn)
    cases = await fetch(place.conn, CASES)
    assert [(count, outcome) for _, count, outcome in cases] == [(1, "same")] * ROWS
    assert await fetch(place.conn, LEFT) == [(0, 0, 0)]
