"""The show of `examples/burn`: its rules hold, through failures, and nothing is said twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.burn import install
from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import column, role, rows, run_all, session, value
from tests.helpers.queue import set_clock
from tests.integration.threads.show import shown, troupe
from walagent.base import faults
from walagent.message import Request
from walagent.models.script import Answer, Fault
from walagent.models.scripted.scripted_model import ScriptedModel

IDLE = "select bool_and(agent_internal.is_final(state)) from agent.run where kind = 'turn'"
# What was said: asked, stored or joked, in order.
SAID = """
select author, data ->> 'name',
       coalesce(data #>> '{input,question}', data #>> '{input,roast}',
                data #>> '{input,facts,0,object}')
  from agent.event where type = 'tool_use' and data ->> 'name' <> 'do_nothing' order by number
"""


class Stage:
    """The people in front of the agents."""

    def __init__(self, d: Daemon, alice: AsyncConnection, bob: AsyncConnection) -> None:
        self.d, self.alice, self.bob = d, alice, bob
        self.thread = ""

    async def settled(self) -> None:
        """Wait until the agents have nothing to do."""
        last = -1
        while True:
            await self.d.caught_up()
            await self.d.until(IDLE)
            now = await value(self.d.conn, "select count(*) from agent.event")
            if now == last:
                return
            last = now

    async def says(self, who: AsyncConnection, text: str) -> None:
        """Post, and wait for what follows."""
        await value(who, "select agent.post(%s, %s)", self.thread, text)
        await self.settled()

    async def said(self) -> list[tuple[str, str]]:
        """What agents did: author and last word of it."""
        return [(author, text) for author, _, text in await rows(self.d.conn, SAID)]


@asynccontextmanager
async def stage(conn: AsyncConnection, dsn: str, model: ScriptedModel) -> AsyncIterator[Stage]:
    """Two people with a thread in which the three agents are."""
    await install(conn)
    async with (
        role(conn) as first,
        role(conn) as second,
        daemon(conn, dsn, {"fake": model}) as d,
        session(dsn, user=first) as alice,
        session(dsn, user=second) as bob,
    ):
        for name in (first, second):
            await run_all(conn, f"select agent.grant_member('{name}')")
        made = Stage(d, alice, bob)
        made.thread = await value(
            alice, "select agent.open_thread('Show', '{sarah,jerry,frankie}')"
        )
        yield made


async def test_the_show(conn: AsyncConnection, dsn: str) -> None:
    """Join, question, answer, facts, jokes in turn, correction, removal, failure."""
    failing: list[Answer] = []

    def answer(request: Request) -> Answer:
        return failing.pop() if failing else troupe(request)

    async with stage(conn, dsn, ScriptedModel([answer])) as s:
        await s.settled()
        assert await s.said() == [("sarah", "Who are you?")]
        await s.says(s.alice, "Hello!")
        assert len(await s.said()) == 1  # she asks nobody again before there is an answer
        await s.says(s.alice, "I like chess")
        await s.says(s.alice, "I like cooking")
        assert [who for who, _ in await s.said()].count("jerry") == 0
        await s.says(s.alice, "I like hiking")
        assert (await s.said())[-1] == ("jerry", "jerry on hiking, joke 1")
        await value(s.bob, "select agent.join_thread(%s)", s.thread)
        await s.settled()
        assert (await s.said())[-1] == ("sarah", "Who are you?")
        await s.says(s.bob, "I like opera")
        assert [who for who, _ in await s.said()].count("frankie") == 0  # nobody has four facts
        failing.append(Fault(529))
        await value(s.alice, "select agent.post(%s, 'I like opera')", s.thread)
        waiting = "select count(*) = 1 from agent.run where state = 'waiting_retry'"
        await s.d.until(waiting)
        await set_clock(conn, "1 hour")
        await s.settled()
        assert (await s.said())[-1] == ("frankie", "frankie on opera, joke 2")
        await s.says(s.alice, "I like checkers instead of chess")
        assert (await s.said())[-1] == ("jerry", "jerry on checkers, joke 3")
        await value(s.alice, "select agent.remove_member(%s, 'jerry')", s.thread)
        await s.says(s.bob, "I like cars")
        await s.says(s.bob, "I like wine")
        jokes = [who for who, text in await s.said() if "joke" in text]
        assert jokes == ["jerry", "frankie", "jerry", "frankie"]
        live = "superseded_by is null and retracted_at is null"
        facts = await column(conn, f"select object from agent.fact where {live} order by object")
        assert facts == ["cars", "checkers", "cooking", "hiking", "opera", "opera", "wine"]
        unlinked = "select count(*) from agent.fact where tool_use_event is null"
        assert await value(conn, unlinked) == 0
        assert await nothing_twice(conn)


async def nothing_twice(conn: AsyncConnection) -> bool:
    """No question, fact or joke occurs twice, and no run failed."""
    doubled = await rows(
        conn,
        "select data -> 'input' from agent.event where type = 'tool_use'"
        " and data ->> 'name' <> 'do_nothing' group by 1 having count(*) > 1",
    )
    wrong = await rows(
        conn,
        "select id, state::text, error from agent.run where kind = 'turn'"
        " and state not in ('succeeded', 'skipped', 'cancelled')",
    )
    assert (doubled, wrong) == ([], [])
    return True


OF_TURN = (
    "run.claimed",
    "model.asking",
    "model.answered",
    "step.recorded",
    "tool.started",
    "tool.committed",
    "run.finished",
    "run.committed",
)


@pytest.mark.few(1)
@pytest.mark.parametrize("point", OF_TURN)
async def test_a_worker_that_dies_anywhere_says_everything_once(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """The next worker continues the turn, and sends the same bytes to the model."""
    model = ScriptedModel([troupe])
    async with stage(conn, dsn, model) as s:
        await s.settled()
        before = len(model.requests)
        with faults.armed(point):
            await value(s.alice, "select agent.post(%s, 'I like chess')", s.thread)
            # The reader starts turns in the worker of its process, unless that claims them first.
            parts = ("reader", "worker") if point == "run.claimed" else ("worker",)
            part = await s.d.dies(*parts)
        if part == "worker":
            await s.d.caught_up()  # the reader might be giving it runs, with a lease of 30 s
        await s.d.expire_leases()
        await (s.d.start_reader() if part == "reader" else s.d.start_worker())
        await s.settled()
        assert [text for _, text in await s.said()] == [
            "Who are you?",
            "chess",
            "What else do you like, besides chess? (1)",
        ]
        assert await nothing_twice(conn)
        if point == "model.answered":
            first, second = list(model.requests)[before : before + 2]
            assert shown(first) == shown(second)
