"""Real daemons are killed at every step of turns; the next one goes on, and nothing is said twice.

Fault points are those of the code; `test_points_apart` sees that all of them are known.
"""

import random
from collections.abc import AsyncIterator
from contextlib import ExitStack
from itertools import count

import pytest

from tests.faults.rig.processes import pause
from tests.faults.rig.stage import Figure, Place
from tests.faults.rig.turns import ACTS, Show, all_is_once, answering, make_show
from tests.faults.rig.waiting import fetch, until_true
from tests.helpers.mailbox import mailbox
from tests.helpers.web import web
from walagent.base import faults
from walagent.testing import FakeProvider

pytestmark = pytest.mark.scenario(1)
WORDS = ("first", "second")  # what an act begins with


@pytest.fixture
async def show(place: Place) -> AsyncIterator[Show]:
    """The thread, with a provider and an outside in this process."""
    async with FakeProvider([answering] * 4) as provider, web() as hook, mailbox() as box:
        provider.key = "fake-key"
        yield await make_show(place, provider, hook, box)


@pytest.mark.slow
@pytest.mark.parametrize("point", faults.POINTS)
async def test_a_daemon_that_is_killed_at_every_passing_of_a_point_says_everything_once(
    show: Show, figure: Figure, point: str
) -> None:
    """Tools, forced calls, an approval, memory, messages, a workflow, and summaries meanwhile."""
    thread = await show.open()
    died = [await show.play(thread, act, point) for act in ACTS]
    assert sum(died), f"{point} never fired"
    await all_is_once(show)
    figure("kills in turns", sum(died))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [3, pytest.param(40, marks=pytest.mark.slow)], ids=["short", "long"]
)
async def test_processes_that_are_killed_at_random_take_over_from_one_another(
    show: Show, chance: random.Random, figure: Figure, kills: int
) -> None:
    """One reads, all work, in several threads at once; leases run out by themselves."""
    names, number = ("1", "2", "3"), count()
    threads = [await show.open(f"Show {n}") for n in range(3)]
    with ExitStack() as stack:
        daemons = {name: stack.enter_context(show.running(name)) for name in names}
        for _ in range(kills):
            for thread in threads:
                if await show.is_idle(thread):
                    await show.say(thread, f"{chance.choice(WORDS)}{next(number)}")
            await pause(chance.uniform(0.1, 1.5))
            name = chance.choice(names)
            daemons[name].kill()
            show.deaths += 1
            daemons[name] = stack.enter_context(show.running(name))
            await show.decide()

        async def is_over() -> bool:
            for each in daemons.values():
                each.is_alive()
            return await show.is_over()

        await until_true(is_over, "everything is done")
    await all_is_once(show)
    taken = "select count(*) from agent.run where attempt > 1 and state = 'succeeded'"
    figure("kills of processes with turns", kills)
    figure("runs that were taken over", (await fetch(show.conn, taken))[0][0])
