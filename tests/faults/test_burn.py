"""The show of `examples/burn` with a real daemon, which is killed at every step of it."""

import random
from dataclasses import dataclass

import pytest

from tests.faults.rig.processes import Daemon, pause, running
from tests.faults.rig.stage import Figure, Place, make_ready
from tests.faults.rig.turns import PATIENCE, PROGRESS, die_until, fetch_none
from tests.faults.rig.waiting import fetch, until_true
from tests.helpers.burn import install
from tests.integration.threads.show import troupe
from tests.integration.threads.test_burn import nothing_twice
from walagent.base import faults
from walagent.testing import FakeProvider

pytestmark = pytest.mark.scenario(1)
# Its tools are functions in SQL, which act and are recorded in one statement.
NOT_PASSED = ("tool.done", "tool.recorded")
PEOPLE = """
insert into agent.principal (tenant, name) values ('default', 'ann'), ('default', 'bob');
create table sentinel (n bigint primary key generated always as identity);
select agent.attach('sentinel', 'model=fake, name=sentinel');
select agent.pause('sentinel');
"""
MODEL = """
update agent.model set provider = 'openai', base_url = %s, credential = 'FAKE_API_KEY'
 where name = 'fake'
"""
OPEN = "select agent.open_thread('Show', '{sarah,jerry,frankie}')::text"
POST, JOIN = "select agent.post(%s, %s)", "select agent.join_thread(%s)"
REMOVE = "select agent.remove_member(%s, 'jerry')"
ASK, FACT, ROAST = "ask_user_about_themselves", "extract_facts", "roast_user"
# Who does what, and what the agents do then.
SHOW: tuple[tuple[str, str, list[tuple[str, str]]], ...] = (
    ("ann", "Hello!", []),  # she is asked nothing again before there is an answer
    ("ann", "I like chess", [("sarah", ASK), ("sarah", FACT)]),
    ("ann", "I like cooking", [("sarah", ASK), ("sarah", FACT)]),
    ("ann", "I like hiking", [("jerry", ROAST), ("sarah", FACT)]),
    ("bob", "", [("sarah", ASK)]),  # joins
    ("bob", "I like opera", [("sarah", ASK), ("sarah", FACT)]),  # nobody has four facts
    ("ann", "I like opera", [("frankie", ROAST), ("sarah", FACT)]),
    ("ann", "I like checkers instead of chess", [("jerry", ROAST), ("sarah", FACT)]),
    ("ann", "-jerry", []),
    ("bob", "I like cars", [("frankie", ROAST), ("sarah", ASK), ("sarah", FACT)]),
    ("bob", "I like wine", [("sarah", FACT)]),
)
FACTS = ["cars", "checkers", "cooking", "hiking", "opera", "opera", "wine"]
LIVE = """
select object from agent.fact where superseded_by is null and retracted_at is null order by 1
"""
CALLS = """
select author, data ->> 'name' from agent.event
 where type = 'tool_use' and data ->> 'name' <> 'do_nothing' order by number
"""
IDLE = """
select bool_and(agent_internal.is_final(state)), (select count(*) from agent.event)
  from agent.run where kind = 'turn'
"""
INGESTED = "select exists (select from agent.run where key = %s)"


@dataclass(slots=True)
class Stage:
    """The thread, and how far its agents are known to have come."""

    place: Place
    thread: str = ""
    sentinel: str = ""
    events: int = -1
    seen: object = None
    told: int = 0

    async def act(self, who: str, query: str, *given: object) -> list[tuple[str]]:
        """Let a person call a function."""
        async with self.place.conn.transaction():
            await fetch(self.place.conn, "select agent_internal.assume('default', %s)", who)
            return await fetch(self.place.conn, query, *given)

    async def does(self, who: str, text: str) -> None:
        """Let a person say something, join, or remove a comedian."""
        if not text:
            await self.act(who, JOIN, self.thread)
        elif text.startswith("-"):
            await self.act(who, REMOVE, self.thread)
        else:
            await self.act(who, POST, self.thread, text)
        await self.look_again()

    async def look_again(self) -> None:
        """Begin to wait until everything until now has been taken in and worked."""
        query = "insert into sentinel default values returning n::text"
        ((self.sentinel,),) = await fetch(self.place.conn, query)

    async def is_settled(self) -> bool:
        """Whether the agents have nothing to do: twice, for what they did wakes others."""
        conn = self.place.conn
        if not (await fetch(conn, INGESTED, self.sentinel))[0][0]:
            return False
        ((idle, events),) = await fetch(conn, IDLE)
        if not idle:
            return False
        if events == self.events:
            return True
        self.events = events
        await self.look_again()
        return False

    async def has_moved(self) -> bool:
        """Whether anything was committed since the last look."""
        before, self.seen = self.seen, await fetch(self.place.conn, PROGRESS)
        return before != self.seen

    async def new_calls(self) -> list[tuple[str, str]]:
        """What agents did since the last look."""
        calls = await fetch(self.place.conn, CALLS)
        new, self.told = calls[self.told :], len(calls)
        return sorted(new)


async def make_stage(place: Place, provider: FakeProvider) -> Stage:
    """Install the example, and people."""
    provider.key = "fake-key"
    await make_ready(place, attach="")
    await install(place.conn)
    await place.conn.execute(MODEL, [f"http://127.0.0.1:{provider.port}/v1"])
    await fetch_none(place.conn, PATIENCE + PEOPLE)
    stage = Stage(place)
    ((stage.thread,),) = await stage.act("ann", OPEN)
    await stage.look_again()
    return stage


async def end_well(stage: Stage) -> None:
    """See what is known in the end, and that nothing was said twice."""
    conn = stage.place.conn
    assert [fact for (fact,) in await fetch(conn, LIVE)] == FACTS
    assert await nothing_twice(conn)
    assert await fetch(conn, "select * from agent.broken_invariant") == []


@pytest.mark.slow
@pytest.mark.parametrize("point", [point for point in faults.POINTS if point not in NOT_PASSED])
async def test_the_show_goes_on_however_often_the_daemon_is_killed(
    place: Place, figure: Figure, point: str
) -> None:
    """Each person's step has what the rules say, once, whatever died meanwhile."""
    async with FakeProvider([troupe]) as provider:
        stage = await make_stage(place, provider)

        def start(failpoint: str) -> Daemon:
            return Daemon(place, failpoint=failpoint, settings={"workers": {"lease": 30}})

        async def settle() -> int:
            return await die_until(stage.is_settled, stage.has_moved, start, place.conn, point)

        deaths = await settle()
        assert await stage.new_calls() == [("sarah", ASK)]
        for who, text, expected in SHOW:
            await stage.does(who, text)
            deaths += await settle()
            assert await stage.new_calls() == expected, text
        assert deaths, f"{point} never fired"
        await end_well(stage)
    figure("kills in shows", deaths)


@pytest.mark.slow
async def test_the_show_goes_on_with_daemons_that_are_killed_at_random(
    place: Place, chance: random.Random
) -> None:
    """Leases run out by themselves."""
    async with FakeProvider([troupe], latency=0.1) as provider:
        stage = await make_stage(place, provider)
        for who, text, expected in (("", "", [("sarah", ASK)]), *SHOW):
            if who:
                await stage.does(who, text)
            for _ in range(2):
                with running(Daemon(place)):
                    await pause(chance.uniform(0.1, 1.5))
            with running(Daemon(place)) as daemon:
                await until_true(stage.is_settled, text)
                daemon.is_alive()
            assert await stage.new_calls() == expected, text
        await end_well(stage)
