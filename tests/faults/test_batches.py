"""Daemons that are killed while they submit batches, look at them and store what they say.

The provider keeps books of its own: what it was submitted, and what it has answered and charges.
"""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import CREDENTIAL, REPLIES, Place, make_ready, script_of
from tests.faults.rig.waiting import fetch, until
from walagent.testing import FakeProvider, read_script

ROWS = 5
SETTINGS = {"batches": {"items": 3, "wait": 0.2, "poll": 0.2}}
CHANGE = """
with new as (
    insert into item select n, 1 from generate_series(1, %s) n returning id, version
)
insert into written (item, version) select * from new
"""
OF_PROVIDER = """
update agent.model
   set (provider, base_url, credential, input_price, output_price, batch_factor)
     = (%s, %s, %s, 10, 50, 0.5)
 where name = 'script'
"""
# As our books have it, in answers of 0.00075 dollars: replies, and those that no run could use.
PAID = """
select round((coalesce((select sum(cost) from agent.step), 0)
            + coalesce((select sum(unused_cost) from agent.batch), 0)) / 0.00075)
"""
LEFT = """
select (select count(*) from agent.batch where state <> 'ended'),
       (select count(*) from agent_internal.batch_item where state = 'waiting'),
       (select count(*) from agent.spend where settled_at is null)
"""
CALLS = ROWS * REPLIES
OFTEN = ("batch.taken", "batch.fetched")  # in which a call could be paid twice, or lost


@asynccontextmanager
async def in_batches(place: Place, provider: str) -> AsyncIterator[FakeProvider]:
    """Make the scene, with a provider that takes batches and a budget."""
    await make_ready(place)
    fake = FakeProvider.of(read_script(script_of(place, "script")))
    async with fake:
        base_url = fake.spec(provider).base_url
        await place.conn.execute(OF_PROVIDER, [provider, base_url, CREDENTIAL])
        await place.conn.execute("update agent.agent set tier = 'batch'")
        await place.conn.execute(
            "insert into agent.budget (name, period, max_cost) values ('all', 'total', 1000)"
        )
        yield fake


async def books_agree(place: Place, fake: FakeProvider) -> None:
    """Each call was answered once, each answer is recorded at its price, nothing is left."""
    submitted = [custom_id for each in fake.batches.batches.values() for custom_id in each.calls]
    assert len(submitted) == len(set(submitted))
    assert set(fake.batches.billed.values()) == {1}
    assert await fetch(place.conn, PAID) == [(fake.batches.billed.total(),)]
    assert await fetch(place.conn, LEFT) == [(0, 0, 0)]


@pytest.mark.parametrize(
    ("point", "nth", "provider"),
    [
        pytest.param(
            point,
            nth,
            provider,
            marks=[] if point in OFTEN and nth == 1 else pytest.mark.slow,
        )
        for point in (
            "batch.formed",
            "batch.submitting",
            "batch.taken",
            "batch.submitted",
            "batch.fetched",
            "batch.ended",
            "run.claimed",
            "step.recorded",
            "tool.committed",
        )
        for nth in (1, 3)
        for provider in ("openai", "anthropic")
    ],
)
async def test_kill_9_at_every_point_of_a_batch_pays_nothing_twice_and_loses_nothing(
    place: Place, point: str, nth: int, provider: str
) -> None:
    """Each row has its run and its effects once; what the provider charges is in our books."""
    async with in_batches(place, provider) as fake:
        with running(Daemon(place, settings=SETTINGS, failpoint=f"{point}:{nth}:kill")) as daemon:
            await daemon.has_said("reader.streaming")
            await place.conn.execute(CHANGE, [ROWS])
            assert await daemon.ended() == -signal.SIGKILL
        with running(Daemon(place, settings=SETTINGS)) as daemon:
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
            await until(place.conn, f"select ({LEFT.replace(',', '+')}) = 0", alive=daemon.is_alive)
        await all_is_well(place.conn)
        assert fake.batches.billed.total() == CALLS
        await books_agree(place, fake)


async def test_two_daemons_submit_each_call_once(place: Place) -> None:
    """Whichever has a batch, the other leaves it."""
    async with in_batches(place, "openai") as fake:
        first = Daemon(place, settings=SETTINGS)
        second = Daemon(place, settings=SETTINGS, name="2", command="serve worker")
        with running(first), running(second):
            await first.has_said("reader.streaming")
            await place.conn.execute(CHANGE, [4 * ROWS])
            await until(place.conn, ALL_ENDED, alive=first.is_alive)
        await all_is_well(place.conn)
        assert fake.batches.billed.total() == 4 * CALLS
        await books_agree(place, fake)
