"""Daemons that are killed while their runs go through the models of a cascade."""

import signal

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import Place, add_model, make_ready
from tests.faults.rig.waiting import fetch, until

ROWS = 2
CHANGE = """
with new as (
    insert into item select n, 1 from generate_series(1, %s) n returning id, version
)
insert into written (item, version) select * from new
"""
# The second call is wrong: nothing of the reply may be carried out, whatever happens between.
UNSURE = {"replies": [[{"call": "note_change"}, {"call": "unsure", "arguments": {"reason": "x"}}]]}
WRONG = {"replies": [[{"call": "note_change"}, {"call": "fly"}]]}
STAGES = """
select run_id, array_agg((content ->> 'stage')::int order by seq),
       count(*) filter (where content ? 'control')
  from agent.step where kind = 'reply' group by run_id order by run_id
"""
POINTS = ("run.claimed", "model.asking", "model.answered", "step.recorded")
FIRST = {("model.answered", 1), ("step.recorded", 1), ("step.recorded", 2)}


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        pytest.param(point, nth, marks=[] if (point, nth) in FIRST else pytest.mark.slow)
        for point in POINTS
        for nth in (1, 2, 3)
        if (point, nth) != ("run.claimed", 3)
    ],
)
async def test_kill_9_at_each_model_of_a_cascade_asks_none_again_that_has_answered(
    place: Place, point: str, nth: int
) -> None:
    """Each row has its run and its effects once; each model has one reply, in their order."""
    await make_ready(place)
    await add_model(place, "tiny", UNSURE)
    await add_model(place, "small", WRONG)
    await place.conn.execute("update agent.agent set cascade = '{tiny,small}'")
    with running(Daemon(place, failpoint=f"{point}:{nth}:kill")) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(CHANGE, [ROWS])
        assert await daemon.ended() == -signal.SIGKILL
    with running(Daemon(place)) as daemon:
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn, shapes=False)
    found = await fetch(place.conn, STAGES)
    assert [stages for _, stages, _ in found] == [[1, 2, 3, 3, 3]] * ROWS


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("tool.committed", 1),
        pytest.param("model.answered", 2, marks=pytest.mark.slow),
        pytest.param("run.finished", 1, marks=pytest.mark.slow),
    ],
)
async def test_kill_9_before_a_control_asks_for_it_once(place: Place, point: str, nth: int) -> None:
    """A resumed run is in the same sample; what it has done is not done again."""
    await make_ready(place)
    await add_model(
        place,
        "tiny",
        {"replies": [[{"call": "note_change"}, {"call": "note_in_python"}], "Noted."]},
    )
    await place.conn.execute(
        "update agent.agent set cascade = '{tiny}', cascade_control = 1, finish = 'answer'"
    )
    await place.conn.execute("alter table item alter status set default 'seen'")
    with running(Daemon(place, failpoint=f"{point}:{nth}:kill")) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(CHANGE, [ROWS])
        assert await daemon.ended() == -signal.SIGKILL
    with running(Daemon(place)) as daemon:
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn, shapes=False)
    found = await fetch(place.conn, STAGES)
    assert [(stages, controls) for _, stages, controls in found] == [([1, 1, None], 1)] * ROWS
