"""Real daemons kill themselves at named points in turn; the next finishes what was begun."""

import random
import signal
from collections import Counter

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well, caught_up
from tests.faults.rig.processes import Daemon, running, start_writer
from tests.faults.rig.provider import Provider, asked_as_promised, excuse
from tests.faults.rig.stage import ATTACH_ALL, Figure, Place, make_ready
from tests.faults.rig.waiting import fetch, until
from walagent.base import faults

KILLED = -9
PASSES = (1, 1, 2, 3, 5)  # of a point, the last of which kills
# A lease that a starved machine does not miss, and few runs that each death leaves to it.
SETTINGS = {"workers": {"lease": 4, "slots": 8}}
WINDOW = 300  # changes: more than the dead hold at any time
# Attachments come and go meanwhile: intake writes down from where on they count.
ELSEWHERE = "create table elsewhere (id bigint primary key)"
COME = "select agent.attach('elsewhere', %s)"
GO = "select agent.detach(%s)"
UNHEARD = "select attachment_id, version from agent.attachment_version where active_from is null"
RUNS = "select count(*) from agent.run"
FEW = ("intake.committed", "tool.recorded")


@pytest.mark.scenario(1)
@pytest.mark.parametrize(
    ("points", "times"),
    [
        pytest.param(FEW, 1, id="a few"),
        *(pytest.param((each,), 20, id=each, marks=pytest.mark.slow) for each in faults.POINTS),
    ],
)
async def test_daemons_that_are_killed_at_every_point_are_made_up_for(
    place: Place, chance: random.Random, figure: Figure, points: tuple[str, ...], times: int
) -> None:
    """SIGKILL at the very instant: what was not committed is gone, what was is not done again."""
    plan = chance.sample(points * times, len(points) * times)
    await place.conn.execute(ELSEWHERE)
    with running(Provider(place)) as provider:
        await provider.is_up()
        await make_ready(place, attach=ATTACH_ALL, provider=provider.url)
        seed = chance.randrange(2**32)
        with running(start_writer(place, seed=seed, window=WINDOW)) as writer:
            for number, point in enumerate(plan):
                await place.conn.execute(COME, [f"model=script, name=other_{number}"])
                failpoint = f"{point}:{chance.choice(PASSES)}:kill"
                dying = Daemon(place, settings=SETTINGS, failpoint=failpoint)
                with running(dying) as daemon:
                    assert await daemon.ended() == KILLED
                await excuse(place.conn)
                await place.conn.execute(GO, [f"other_{number}"])
            writer.signal(signal.SIGTERM)
            assert await writer.ended() == 0
        with running(Daemon(place, settings=SETTINGS)) as daemon:
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
            await all_is_well(place.conn)
            await caught_up(place.conn, place.slot, lag=20 << 20)
        again = await asked_as_promised(place.conn, provider)
    assert await fetch(place.conn, UNHEARD) == []
    assert Counter(plan) == dict.fromkeys(points, times)
    figure("kills at a step boundary", len(plan))
    figure("runs beside them", (await fetch(place.conn, RUNS))[0][0])
    figure("answers asked for again", again)
