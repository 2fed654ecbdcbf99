"""Threads that are longer than a prompt: what is left out, summarized, kept, and asked again."""

import asyncio
import re

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DEADLINE, rows, run_all, value
from tests.integration.threads.test_turns import MODEL, POST, TURNS, shown
from walagent.base import faults
from walagent.message import Reply, Request
from walagent.models.script import Answer
from walagent.models.scripted.scripted_model import ScriptedModel

SIZE = 500  # tokens of a prompt
AGENT = (
    "insert into agent.agent (name, model, system_prompt) values ('{0}', 'fake', 'You are {0}.');"
    f"select agent.attach_to_threads('{{0}}', max_context_tokens => {SIZE}{{1}});"
)
WAKE = ", wake => $$ new.data ->> 'text' ~ 'sarah' $$"
THREAD = "select agent.open_thread('Talk', '{sarah}')::text"
IDLE = f"select bool_and(agent_internal.is_final(state)) from {TURNS}"
SUMMARIES = f"select count(*) from {TURNS} and reason = 'summary' and state = %s"
LONG = "long " * 120  # with its envelope, about a third of the prompt
HUGE = "huge " * 20_000


def is_summary(request: Request) -> bool:
    """Whether a summary is asked for."""
    return request.system.startswith("You summarize")


def answer(request: Request) -> Answer:
    """Count the events that a summary is of, in its text."""
    if is_summary(request):
        return "Summary of " + ", ".join(re.findall(r'"text":"(\w+ \d+)', shown(request)))
    return "Noted."


class Held(ScriptedModel):
    """A model whose summaries wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__([answer])
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def complete(self, request: Request) -> Reply:
        """Answer; a summary when the test lets it."""
        if is_summary(request):
            self.asked.set()
            await self.go.wait()
        return await super().complete(request)


async def settled(d: Daemon) -> None:
    """Wait until there is nothing to do."""
    before = -1
    while (now := await value(d.conn, f"select count(*) from {TURNS}")) != before:
        before = now
        await d.caught_up()
        await d.until(IDLE)


async def say(d: Daemon, thread: str, text: str) -> None:
    """Post, and wait for what follows."""
    await value(d.conn, POST, thread, text)
    await settled(d)


@pytest.mark.slow
async def test_instructions_stay_when_their_event_is_summarized(
    conn: AsyncConnection, dsn: str
) -> None:
    """An owner's instruction is not conversation: it holds until one overrides it."""
    await run_all(conn, MODEL + AGENT.format("sarah", ""))
    model = ScriptedModel([answer])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        await value(conn, "select agent.inject(%s, 'Never name prices.', 'system')", thread)
        for n in range(6):
            await say(d, thread, f"number {n} {LONG}")
        assert await value(conn, "select summary_upto > 3 from agent.thread")
        last = [each for each in model.requests if not is_summary(each)][-1]
        assert "Never name prices." in last.system
        await value(conn, "select agent.inject(%s, 'Speak French.', 'override')", thread)
        await say(d, thread, "And now?")
        last = [each for each in model.requests if not is_summary(each)][-1]
        assert "Speak French." in last.system
        assert "Never name prices." not in last.system


async def test_what_concerns_an_agent_wakes_it_behind_a_huge_event(
    conn: AsyncConnection, dsn: str
) -> None:
    """The rule is asked about everything that is new, whatever a prompt has room for."""
    await run_all(conn, MODEL + AGENT.format("sarah", WAKE))
    model = ScriptedModel([answer])
    async with daemon(conn, dsn, {"fake": model}, parts=("reader",)) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "What do you think, sarah?")
        await value(conn, POST, thread, HUGE)
        await d.caught_up()
        await d.start_worker()
        await settled(d)
        assert await rows(conn, f"select state::text from {TURNS} and reason = 'change'") == [
            ("succeeded",)
        ]
        request = next(each for each in model.requests if not is_summary(each))
        assert "What do you think" in shown(request)


@pytest.mark.slow
async def test_a_summary_by_one_agent_takes_no_question_from_another(
    conn: AsyncConnection, dsn: str
) -> None:
    """A turn that starts late is woken by what was summarized meanwhile."""
    await run_all(conn, MODEL + AGENT.format("sarah", WAKE) + AGENT.format("jerry", ""))
    await run_all(conn, "select agent.pause('sarah')")
    async with daemon(conn, dsn, {"fake": ScriptedModel([answer])}) as d:
        thread = await value(conn, "select agent.open_thread('Talk', '{sarah,jerry}')::text")
        await value(conn, POST, thread, "What do you think, sarah?")
        for n in range(8):
            await value(conn, POST, thread, f"number {n} {LONG}")
            await d.until("select count(*) > %s from agent.event where author = 'jerry'", n)
        await d.until("select summary_upto > 2 from agent.thread")
        await run_all(conn, "select agent.resume('sarah')")
        await settled(d)
        said = "select count(*) from agent.event where author = 'sarah' and type = 'text'"
        assert await value(conn, said) >= 1


@pytest.mark.slow
async def test_a_huge_event_fits_and_does_not_stop_summaries(
    conn: AsyncConnection, dsn: str
) -> None:
    """It is cut in what models are shown, also of the summary that takes its place."""
    await run_all(conn, MODEL + AGENT.format("sarah", ""))
    model = ScriptedModel([answer])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        await say(d, thread, f"number 0 {HUGE}")
        for n in range(1, 6):
            await say(d, thread, f"number {n} {LONG}")
        assert any(is_summary(each) and "number 0" in shown(each) for each in model.requests)
        assert await value(conn, "select summary_upto > 5 from agent.thread")
        assert all(len(shown(each)) < 6 * 4 * SIZE for each in model.requests)
        failed = f"select count(*) from {TURNS} and state not in ('succeeded', 'skipped')"
        assert await value(conn, failed) == 0


@pytest.mark.slow
async def test_a_corrected_answer_is_summarized_as_corrected(
    conn: AsyncConnection, dsn: str
) -> None:
    """What an owner has put in its place, and not what the agent said."""
    await run_all(conn, MODEL + AGENT.format("sarah", ""))
    model = ScriptedModel([answer])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        await say(d, thread, "Hi!")
        said = await value(conn, "select id from agent.event where author = 'sarah'")
        await say(d, thread, f"number 0 {LONG}")
        await d.stop("worker")
        await value(conn, POST, thread, f"number 1 {LONG}")
        await value(conn, "select agent.override_response(%s, 'Corrected.')", said)
        await d.start_worker()
        await settled(d)
        first = next(each for each in model.requests if is_summary(each))
        assert "Corrected." in shown(first)
        assert await value(
            conn, "select number > summary_upto from agent.event, agent.thread"
            " where data ->> 'action' = 'overridden'"
        )  # fmt: skip


@pytest.mark.slow
async def test_an_empty_summary_replaces_nothing(conn: AsyncConnection, dsn: str) -> None:
    """Events would be gone from every prompt."""
    await run_all(conn, MODEL + AGENT.format("sarah", ""))

    def silent(request: Request) -> Answer:
        return "" if is_summary(request) else "Noted."

    async with daemon(conn, dsn, {"fake": ScriptedModel([silent] * 9)}) as d:
        thread = await value(conn, THREAD)
        for n in range(4):
            await say(d, thread, f"number {n} {LONG}")
        assert await rows(conn, "select summary, summary_upto from agent.thread") == [(None, 0)]
        reasons = f"select state::text, error from {TURNS} and reason = 'summary'"
        assert await rows(conn, reasons)


@pytest.mark.slow
async def test_events_that_come_while_a_summary_is_written_stay(
    conn: AsyncConnection, dsn: str
) -> None:
    """It covers what it was made from, and turns go on meanwhile; two do not work at once."""
    await run_all(conn, MODEL + AGENT.format("sarah", ""))
    model = Held()
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        for n in range(4):
            await value(conn, POST, thread, f"number {n} {LONG}")
            await d.until("select count(*) > %s from agent.event where author = 'sarah'", n)
        await asyncio.wait_for(model.asked.wait(), DEADLINE)
        for n in range(4, 8):
            await value(conn, POST, thread, f"number {n} {LONG}")
            await d.until("select count(*) > %s from agent.event where author = 'sarah'", n)
        assert await value(conn, SUMMARIES, "running") == 1
        model.go.set()
        await settled(d)
        summaries = [each for each in model.requests if is_summary(each)]
        made_from = [re.findall(r"number (\d)", shown(each)) for each in summaries]
        assert "7" not in "".join(made_from[0])
        texts = (
            "select data ->> 'text' from agent.event where number > summary_upto and type = 'text'"
        )
        left = await rows(conn, texts.replace("from agent.event", "from agent.event, agent.thread"))
        kept = set(re.findall(r"number (\d)", " ".join(str(text) for (text,) in left)))
        covered = {n for each in made_from for n in each}
        assert kept | covered == set("01234567")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "point", ["run.claimed", "model.answered", "run.finished", "run.committed"]
)
async def test_a_summary_that_dies_is_written_by_the_next_worker(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """Once, of the same events; no turn waits for it."""
    await run_all(conn, MODEL + AGENT.format("sarah", ""))
    model = ScriptedModel([answer])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        for n in range(2):
            await say(d, thread, f"number {n} {LONG}")
        await d.stop("worker")
        await value(conn, POST, thread, f"number 2 {LONG}")
        await d.caught_up()
        done = f"select count(*) from {TURNS} and reason = 'summary'"
        before = await value(conn, done)
        with faults.armed(point, skip=1):  # of the turn, then of the summary
            await d.start_worker()
            await d.dies("worker")
        assert await value(conn, done) == before + 1
        await d.expire_leases()
        await d.start_worker()
        await say(d, thread, "And now?")
        wrong = f"select state::text, error from {TURNS} and state not in ('succeeded', 'skipped')"
        assert await rows(conn, wrong) == []
        assert "number 0" in str(await value(conn, "select summary from agent.thread"))
        asked = [shown(each) for each in model.requests if is_summary(each)]
        assert len(set(asked)) == len(asked) - (point in {"model.answered", "run.finished"})


@pytest.mark.slow
async def test_of_two_summaries_at_once_the_one_that_covers_more_stays(
    conn: AsyncConnection, dsn: str
) -> None:
    """Two agents ask for one; whichever ends first, no event is in neither summary nor prompt."""
    await run_all(conn, MODEL + AGENT.format("sarah", "") + AGENT.format("jerry", ""))
    model = Held()
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, "select agent.open_thread('Talk', '{sarah,jerry}')::text")
        for n in range(5):
            await value(conn, POST, thread, f"number {n} {LONG}")
            await d.until("select count(*) > %s from agent.event where author = 'sarah'", n)
            await d.until("select count(*) > %s from agent.event where author = 'jerry'", n)
        await d.until(SUMMARIES.replace("count(*)", "count(*) = 2"), "running")
        model.go.set()
        await settled(d)
        ((upto, summary),) = await rows(conn, "select summary_upto, summary from agent.thread")
        uptos = await rows(
            conn,
            "select (s.content #>> '{turn,upto}')::bigint from agent.run r"
            " join agent.step s on s.run_id = r.id and s.seq = 0"
            " where r.reason = 'summary' and r.state = 'succeeded'",
        )
        assert upto == max(each for (each,) in uptos)
        assert summary
