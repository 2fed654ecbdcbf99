"""A real daemon kills itself at a named point; the next one finishes what it began."""

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import ATTACH, Place, add_model, set_up
from tests.faults.rig.waiting import fetch, until, until_true
from walagent import faults

KILLED = -9
MOST = 60  # changes; each point has fired long before
TOPIC = "create table topic (id bigint primary key generated always as identity)"
# All changes of 100 ms become one run: the way of intake that is more than one statement.
ATTACH_TOPIC = "select agent.attach('topic', 'model=digest, lane=[], debounce=100ms')"
DIGESTED = """
select (select count(*) from agent.run where change ->> 'table' = 'topic')
       + (select count(*) from agent.merged_change),
       (select count(*) from (select change -> 'new' ->> 'id' from agent.run
                               where change ->> 'table' = 'topic'
                              union select change -> 'new' ->> 'id' from agent.merged_change) c)
"""
TOPICS_ENDED = """
select count(*) > 0 and bool_and(agent.is_final(state))
  from agent.run where change ->> 'table' = 'topic'
"""
FAST = {("intake.progress_moved", 2), ("model.answered", 2), ("tool.recorded", 3)}
CASES = [
    pytest.param(point, nth, marks=() if (point, nth) in FAST else pytest.mark.slow)
    for point in faults.POINTS
    for nth in (1, 2, 3, 7)
]


async def change(place: Place, number: int) -> None:
    """Change both tables, noting it as the application does."""
    async with place.conn.transaction():
        await place.conn.execute("insert into item values (%s, 1)", [number])
        await place.conn.execute("insert into written (item, version) values (%s, 1)", [number])
    await place.conn.execute("insert into topic default values")


async def feed_until_dead(place: Place, daemon: Daemon) -> int:
    """Attach and make one change after the other until the daemon has died of it.

    Returns:
        how many changes that took.
    """
    attached = changes = 0

    async def happened() -> bool:
        if daemon.has_ended:
            return True
        return bool((await fetch(place.conn, ALL_ENDED))[0][0])

    while not daemon.has_ended:
        if not attached and daemon.count("reader.streaming"):
            await place.conn.execute(ATTACH.encode())
            await place.conn.execute(ATTACH_TOPIC)
            attached = 2
        elif attached and daemon.count("attachment.active") == attached:
            changes += 1
            assert changes <= MOST, "the point never fired"
            await change(place, changes)
            await until_true(happened, "the change is worked, or the daemon dead")
    if not attached:
        await place.conn.execute(ATTACH.encode())
        await place.conn.execute(ATTACH_TOPIC)
    return changes


@pytest.mark.parametrize(("point", "nth"), CASES)
async def test_a_daemon_that_is_killed_at_any_point_is_made_up_for(
    place: Place, point: str, nth: int
) -> None:
    """SIGKILL at the very instant: what was not committed is gone, what was is not done again."""
    await set_up(place)
    await place.conn.execute(TOPIC)
    await add_model(place, "digest", {"replies": ["Seen."]})
    with running(Daemon(place, failpoint=f"{point}:{nth}:kill")) as daemon:
        changes = await feed_until_dead(place, daemon)
        assert await daemon.ended() == KILLED
    with running(Daemon(place)) as daemon:
        for number in range(changes + 1, changes + 4):
            await change(place, number)
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await until(place.conn, TOPICS_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
    assert await fetch(place.conn, DIGESTED) == [(changes + 3, changes + 3)]
