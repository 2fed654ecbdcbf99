"""What people say while a turn goes on: it waits, is absorbed, or interrupts the reply."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DEADLINE, refused, rows, run_all, value
from walagent.base import faults
from walagent.message import Reply, Request, Text
from walagent.models.script import Answer, call
from walagent.models.scripted.scripted_model import ScriptedModel

AGENT = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('fake', 'scripted', 'fake', 1, 5);
create table noted (what text);
create function note(what text) returns text language sql as $$
insert into noted values ($1); select 'ok' $$;
insert into agent.budget (name, period, max_cost) values ('all', 'day', 100);
insert into agent.agent (name, model, system_prompt, tools)
values ('sarah', 'fake', 'You are Sarah.', '{note}');
select agent.attach_to_threads('sarah', meanwhile => '%s');
"""
THREAD = "select agent.open_thread('Talk', '{sarah}')"
POST = "select agent.post(%s, %s)"
INTERRUPT = "select agent.interrupt(%s, %s)"
EVENTS = """
select case when author = current_user then 'me' else author end, data ->> 'text',
       data ? 'cut_off'
  from agent.event where type = 'text' order by number
"""
RUNS = "select state::text from agent.run where kind = 'turn' order by id"
NOTES = "select count(*) from agent.step where content ? 'meanwhile'"


class Held(ScriptedModel):
    """A model that says the first words of its first answer, and waits for the test."""

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__(answers)
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = 0

    async def complete(self, request: Request) -> Reply:
        """Answer when the test lets it."""
        if request.on_text is not None and not self.asked.is_set():
            request.on_text("I was ")
            request.on_text("about to")
        self.asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            self.go.set()
            raise
        return await super().complete(request)


def said(request: Request) -> str:
    """The texts of a request after the first."""
    parts = [part for message in request.messages for part in message.parts][1:]
    return "\n".join(part.text for part in parts if isinstance(part, Text))


@asynccontextmanager
async def talk(
    conn: AsyncConnection, dsn: str, how: str, *answers: Answer
) -> AsyncIterator[tuple[Daemon, Held, object]]:
    """A thread in which an agent is about to answer."""
    await run_all(conn, AGENT % how)
    model = Held(list(answers))
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "Hi!")
        await asyncio.wait_for(model.asked.wait(), DEADLINE)
        yield d, model, thread


async def ended(d: Daemon, count: int) -> list[object]:
    """Wait for the ends of turns; give their states."""
    await d.caught_up()
    await d.until(
        "select count(*) = %s and bool_and(agent_internal.is_final(state)) from agent.run"
        " where kind = 'turn'",
        count,
    )
    return [state for (state,) in await rows(d.conn, RUNS)]


async def test_a_text_waits_for_the_next_turn(conn: AsyncConnection, dsn: str) -> None:
    """As it is without a setting."""
    async with talk(conn, dsn, "queue", "First.") as (d, model, thread):
        await value(conn, POST, thread, "And?")
        model.go.set()
        assert await ended(d, 2) == ["succeeded"] * 2
        assert await rows(conn, EVENTS) == [
            ("me", "Hi!", False),
            ("me", "And?", False),
            ("sarah", "First.", False),
            ("sarah", "First.", False),
        ]
        assert await value(conn, NOTES) == 0


async def test_a_turn_takes_a_text_in_before_its_next_call(conn: AsyncConnection, dsn: str) -> None:
    """The reply that is being written ends, its calls are made; no other turn answers."""
    answers = (call("note", what="a"), "Both.")
    async with talk(conn, dsn, "absorb", *answers) as (d, model, thread):
        await value(conn, POST, thread, "And?")
        await value(conn, POST, thread, "Now!")
        model.go.set()
        assert await ended(d, 2) == ["succeeded", "skipped"]
        assert model.cancelled == 0
        assert [("And?" in said(r), "Now!" in said(r)) for r in model.requests] == [
            (False, False),
            (True, True),
        ]
        assert await rows(conn, EVENTS) == [
            ("me", "Hi!", False),
            ("me", "And?", False),
            ("me", "Now!", False),
            ("sarah", "Both.", False),
        ]
        seen = "select seen >= 4 from agent.member where principal = 'sarah'"
        assert await value(conn, seen) is True


async def test_a_text_interrupts_the_reply(conn: AsyncConnection, dsn: str) -> None:
    """What was said stays, as cut off, and the same turn answers what they said."""
    async with talk(conn, dsn, "interrupt", "unused", "As you say.") as (d, model, thread):
        await value(conn, POST, thread, "Stop!")
        assert await ended(d, 2) == ["succeeded", "skipped"]
        assert model.cancelled == 1
        assert await rows(conn, EVENTS) == [
            ("me", "Hi!", False),
            ("me", "Stop!", False),
            ("sarah", "I was about to", True),
            ("sarah", "As you say.", False),
        ]
        request = model.requests[-1]
        assert [message.role for message in request.messages] == ["user", "assistant", "user"]
        assert "about to" in said(request)
        assert "Stop!" in said(request)
    spent = "select cost > 0 and tokens > 0 from agent.run where state = 'succeeded'"
    assert await value(conn, spent) is True
    settled = "select count(*), bool_and(settled_at is not null and cost > 0) from agent.spend"
    assert await rows(conn, settled) == [(2, True)]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_person_interrupts_any_turn(conn: AsyncConnection, dsn: str) -> None:
    """With agent.interrupt; nothing was said where nobody read, and nothing is posted of it."""
    async with talk(conn, dsn, "queue", "As you say.") as (d, model, thread):
        await value(conn, INTERRUPT, thread, "Stop!")
        assert await ended(d, 2) == ["succeeded", "skipped"]
        assert model.cancelled == 1
        assert await rows(conn, EVENTS) == [
            ("me", "Hi!", False),
            ("me", "Stop!", False),
            ("sarah", "As you say.", False),
        ]
        assert [message.role for message in model.requests[-1].messages] == ["user"]
        assert "Stop!" in said(model.requests[-1])
    steps = "select kind, content ? 'cut_off' from agent.step where run_id = 1 order by seq"
    assert await rows(conn, steps) == [
        ("note", False),
        ("reply", True),
        ("note", False),
        ("reply", False),
    ]


@pytest.mark.parametrize("point", ["model.answered", "step.recorded", "model.asking"])
async def test_a_worker_that_dies_takes_a_text_in_once(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """Wherever it dies: cut off once, absorbed once, answered once."""
    async with talk(conn, dsn, "interrupt", "unused", "As you say.") as (d, _, thread):
        with faults.armed(point):
            await value(conn, POST, thread, "Stop!")
            assert await d.dies("worker") == "worker"
        await d.expire_leases()
        await d.start_worker()
        assert await ended(d, 2) == ["succeeded", "skipped"]
        found = await rows(conn, EVENTS)
        assert found[:2] == [("me", "Hi!", False), ("me", "Stop!", False)]
        cut = [("sarah", "I was about to", True)] if point != "model.answered" else []
        assert found[2:-1] == cut
        assert found[-1][1] in {"As you say.", "unused"}
        assert await value(conn, NOTES) == 1
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_turn_that_is_begun_again_looks_before_its_first_call(
    conn: AsyncConnection, dsn: str
) -> None:
    """It has asked nothing yet, but what it was shown is old."""
    await run_all(conn, AGENT % "absorb")
    async with daemon(conn, dsn, {"fake": ScriptedModel(["Both."])}) as d:
        thread = await value(conn, THREAD)
        with faults.armed("model.asking"):
            await value(conn, POST, thread, "Hi!")
            assert await d.dies("worker") == "worker"
        await value(conn, POST, thread, "And?")
        await d.expire_leases()
        await d.start_worker()
        assert await ended(d, 2) == ["succeeded", "skipped"]
    assert await value(conn, NOTES) == 1


async def test_an_agent_interrupts_nobody(conn: AsyncConnection, dsn: str) -> None:
    """Not even itself: it would begin again without end."""
    await run_all(conn, AGENT % "queue")
    thread = await value(conn, THREAD)
    async with conn.transaction():
        acts = "select agent_internal.assume('default', 'sarah', '{post}')"
        await conn.execute(acts.encode())
        error = await refused(conn, INTERRUPT, thread, "Stop!", state="42501")
        assert "agent" in str(error)
    await refused(conn, INTERRUPT, thread, "", state="WA019")


async def test_what_is_not_a_setting_is_refused(conn: AsyncConnection) -> None:
    """By name, with what there is."""
    await run_all(conn, AGENT.rpartition("select agent.attach")[0])
    error = await refused(
        conn, "select agent.attach_to_threads('sarah', meanwhile => 'stop')", state="WA013"
    )
    assert "queue, absorb or interrupt" in str(error)
