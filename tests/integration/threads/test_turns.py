"""Agents in threads: who is woken, by what, how often, and what becomes of it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DEADLINE, refused, role, rows, run_all, session, value
from tests.helpers.queue import set_clock
from walagent.message import Reply, Request, Stop, Text, ToolCall
from walagent.models.script import Answer, Fault, call, in_turn
from walagent.models.scripted.scripted_model import ScriptedModel

MODEL = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('fake', 'scripted', 'fake', 1, 5);
"""
AGENT = (
    MODEL
    + """
insert into agent.agent (name, model, system_prompt) values ('sarah', 'fake', 'You are Sarah.');
select agent.attach_to_threads('sarah');
"""
)
THREAD = "select agent.open_thread('Talk', '{sarah}')"
POST = "select agent.post(%s, %s)"
EVENTS = (
    "select type, case when author = current_user then 'me' else author end,"
    " coalesce(data ->> 'text', data ->> 'action', data ->> 'name', data ->> 'content')"
    " from agent.event order by thread_id, number"
)
TURNS = "agent.run where kind = 'turn'"
RUNS = f"select principal, state::text, error ->> 'reason' from {TURNS} order by id"


async def events(conn: AsyncConnection) -> Sequence[tuple[Any, ...]]:
    """All events: type, author, text."""
    return await rows(conn, EVENTS)


def shown(request: Request) -> str:
    """What a request shows of the thread."""
    (part,) = request.messages[0].parts
    assert isinstance(part, Text)
    return part.text


class Slow(ScriptedModel):
    """A model whose first answer waits until the test lets it go."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        super().__init__(answers)
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def complete(self, request: Request) -> Reply:
        """Answer when the test lets it."""
        self.asked.set()
        await self.go.wait()
        return await super().complete(request)


async def test_a_person_posts_and_an_agent_answers(conn: AsyncConnection, dsn: str) -> None:
    """The text of the reply is the event, of the same transaction as the end of the run."""
    await run_all(conn, AGENT)
    async with daemon(conn, dsn, ["Hello there."]) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "Hi!")
        await d.ended()
        assert await events(conn) == [
            ("system", "me", "created"),
            ("text", "me", "Hi!"),
            ("text", "sarah", "Hello there."),
        ]
        run = await rows(
            conn,
            "select kind, principal, state::text, error, (select count(*) from agent.step s"
            " where s.run_id = r.id) from agent.run r",
        )
        assert run == [("turn", "sarah", "succeeded", None, 2)]
        assert await value(conn, "select seen from agent.member where principal = 'sarah'") == 2
        assert await value(
            conn, "select e.run_id = r.id from agent.run r, agent.event e where author = 'sarah'"
        )


async def test_only_agents_in_the_thread_are_woken(conn: AsyncConnection, dsn: str) -> None:
    """An agent that is no member costs nothing, not even a run."""
    await run_all(
        conn,
        AGENT + "insert into agent.agent (name, model) values ('jerry', 'fake');"
        "select agent.attach_to_threads('jerry');",
    )
    async with daemon(conn, dsn, ["Yes."]) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "Hi!")
        await d.ended()
        assert await rows(conn, RUNS) == [("sarah", "succeeded", None)]


async def test_a_burst_of_five_messages_costs_two_turns_at_most(
    conn: AsyncConnection, dsn: str
) -> None:
    """A turn that is going on is followed by at most one more, which shows all that is new."""
    await run_all(conn, AGENT)
    model = Slow([in_turn("First.", "Rest.")])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "one")
        await asyncio.wait_for(model.asked.wait(), DEADLINE)
        for text in ("two", "three", "four", "five"):
            await value(conn, POST, thread, text)
        await d.caught_up()
        model.go.set()
        await d.until("select count(*) = 2 from agent.event where author = 'sarah'")
        await d.caught_up()
        assert await rows(conn, RUNS) == [("sarah", "succeeded", None)] * 2
        assert "two" not in shown(model.requests[0])
        assert "five" in shown(model.requests[1])


async def test_turns_that_have_not_started_absorb_events(conn: AsyncConnection, dsn: str) -> None:
    """Without a worker, many messages wait as one turn."""
    await run_all(conn, AGENT)
    async with daemon(conn, dsn, ["Hello."], parts=("reader",)) as d:
        thread = await value(conn, THREAD)
        for n in range(20):
            await value(conn, POST, thread, f"message {n}")
        await d.caught_up()
        assert await rows(conn, RUNS) == [("sarah", "pending", None)]
        await d.start_worker()
        await d.ended()
        assert await rows(conn, RUNS) == [("sarah", "succeeded", None)]


async def test_a_rule_is_asked_again_when_the_turn_starts(conn: AsyncConnection, dsn: str) -> None:
    """What the turn before took up wakes nobody a second time."""
    await run_all(
        conn,
        MODEL + "insert into agent.agent (name, model) values ('sarah', 'fake');"
        "select agent.attach_to_threads('sarah', wake =>"
        " 'new.type = ''text'' and new.data ->> ''text'' like ''%?''');",
    )
    async with daemon(conn, dsn, ["Because."]) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "Just saying.")
        await d.caught_up()
        assert await rows(conn, RUNS) == []
        await d.stop("worker")
        await value(conn, POST, thread, "Why?")
        await d.caught_up()
        await run_all(conn, "update agent.member set seen = 99")
        await d.start_worker()
        await d.ended()
        assert await rows(conn, RUNS) == [
            ("sarah", "skipped", "the wake rule does not hold now"),
        ]
        await run_all(conn, "update agent.member set seen = 0")
        await value(conn, POST, thread, "Really?")
        await d.until(f"select count(*) = 2 from {TURNS} and agent_internal.is_final(state)")
        assert (await rows(conn, RUNS))[-1] == ("sarah", "succeeded", None)


async def test_functions_in_sql_decide_and_render(conn: AsyncConnection, dsn: str) -> None:
    """They read the thread as the agent, and it sees no other thread."""
    await run_all(
        conn,
        MODEL
        + """
create function asked(thread uuid, seen bigint) returns boolean language sql stable as
$$ select exists (select from agent.event e where e.thread_id = $1 and e.number > $2
                   and e.data ->> 'text' = 'now') $$;
create function shown(thread uuid, seen bigint) returns text language sql stable as
$$ select 'Texts: ' || string_agg(e.data ->> 'text', ', ' order by e.number)
          || ' in ' || (select count(*) from agent.thread) || ' as ' || agent.current_principal()
     from agent.event e where e.type = 'text' $$;
insert into agent.agent (name, model) values ('sarah', 'fake');
""",
    )
    model = ScriptedModel(["Done."])
    async with role(conn) as app, daemon(conn, dsn, {"fake": model}) as d:
        await run_all(conn, f"select agent.grant_member('{app}')")
        await value(
            conn,
            "select agent.attach_to_threads('sarah', wake_function => 'sql:asked',"
            " context => 'sql:shown', run_as => %s)",
            app,
        )
        thread = await value(conn, THREAD)
        other = await value(conn, "select agent.open_thread('Secret')")
        await value(conn, POST, other, "hidden")
        await value(conn, "select agent.post(%s, 'soon')", thread)
        await d.until(f"select count(*) = 1 from {TURNS} and state = 'skipped'")
        await value(conn, "select agent.post(%s, 'now')", thread)
        await d.until(f"select count(*) = 1 from {TURNS} and state = 'succeeded'")
    assert shown(model.requests[0]) == "Texts: soon, now in 1 as sarah"


@pytest.mark.slow
async def test_agents_answer_one_another_up_to_a_limit(conn: AsyncConnection, dsn: str) -> None:
    """A person's message starts the count again; nothing is lost meanwhile."""
    await run_all(
        conn,
        MODEL + "insert into agent.agent (name, model) values ('sarah', 'fake'), ('jerry', 'fake');"
        "select agent.attach_to_threads(a, format('new.type = ''text'' and new.author <> %L', a))"
        " from unnest('{sarah,jerry}'::text[]) a",
    )
    async with daemon(conn, dsn, ["So?"]) as d:
        thread = await value(
            conn, "select agent.open_thread('Talk', '{sarah,jerry}', max_agent_turns => 5)"
        )
        await value(conn, POST, thread, "Go!")
        await d.until(f"select count(*) > 0 from {TURNS} and state = 'skipped'")
        await d.caught_up()
        await d.until(f"select bool_and(agent_internal.is_final(state)) from {TURNS}")
        answers = "select count(*) from agent.event where run_id is not null"
        assert await value(conn, answers) == 5
        reasons = {reason for _, state, reason in await rows(conn, RUNS) if state == "skipped"}
        assert any("max_agent_turns" in str(reason) for reason in reasons)
        await value(conn, POST, thread, "Go on!")
        await d.until(f"select ({answers}) = 10")


async def test_an_agent_that_leaves_stops_while_its_model_is_asked(
    conn: AsyncConnection, dsn: str
) -> None:
    """The turn is cancelled, and what the model says after that is not posted."""
    await run_all(conn, AGENT)
    model = Slow(["Too late."])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "Hi!")
        await asyncio.wait_for(model.asked.wait(), DEADLINE)
        await value(conn, "select agent.remove_member(%s, 'sarah')", thread)
        await d.ended()
        model.go.set()
        assert [state for _, state, _ in await rows(conn, RUNS)] == ["cancelled"]
        assert (await events(conn))[-1] == ("system", "sarah", "left")
        await value(conn, POST, thread, "Still there?")
        await d.caught_up()
        assert len(await rows(conn, RUNS)) == 1


async def test_a_paused_thread_starts_no_turns(conn: AsyncConnection, dsn: str) -> None:
    """What is posted meanwhile is answered after it is resumed."""
    await run_all(conn, AGENT)
    async with daemon(conn, dsn, ["Here."]) as d:
        thread = await value(conn, THREAD)
        await value(conn, "select agent.pause_thread(%s)", thread)
        await value(conn, POST, thread, "Anybody?")
        await d.until(
            f"select count(*) = 1 from {TURNS} and state = 'pending' and not_before > '9999-12-30'"
        )
        await value(conn, POST, thread, "Hello?")
        await d.caught_up()
        assert len(await rows(conn, RUNS)) == 1
        await value(conn, "select agent.resume_thread(%s)", thread)
        await d.ended()
        assert (await events(conn))[-1] == ("text", "sarah", "Here.")
        assert await value(conn, f"select attempt from {TURNS}") == 1


TOOLS = (
    MODEL
    + """
create table noted (thread uuid, what text);
create function note(thread uuid, what text) returns void language sql as
$$ insert into noted values ($1, $2) $$;
insert into agent.agent (name, model, tools, tool_choice, finish)
values ('sarah', 'fake', '{note,do_nothing}', 'required', 'after_call');
select agent.attach_to_threads('sarah', bind => '{"thread": "thread_id"}');
"""
)


async def test_a_call_its_effect_and_its_event_commit_together(
    conn: AsyncConnection, dsn: str
) -> None:
    """The thread of the call is that of the turn: the model cannot name another."""
    await run_all(conn, TOOLS)
    async with daemon(conn, dsn, [call("note", what="chess")]) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "I like chess")
        await d.ended()
        assert await rows(conn, RUNS) == [("sarah", "succeeded", None)]
        assert await rows(conn, "select thread, what from noted") == [(thread, "chess")]
        ((data, same),) = await rows(
            conn,
            "select e.data, e.xmin::text = s.xmin::text from agent.event e, agent.step s"
            " where e.type = 'tool_use' and s.kind = 'result'",
        )
        assert (data["name"], data["input"]["what"], same) == ("note", "chess", True)


async def test_exactly_one_call_is_made(conn: AsyncConnection, dsn: str) -> None:
    """Wrong calls go back to the model up to three times; two calls are none."""
    await run_all(conn, TOOLS)
    two = Reply(tuple(ToolCall(n, "note", {"what": n}) for n in "ab"), Stop.TOOL)
    answers = [two, call("nothing"), call("note", who="x"), call("note", what="c")]
    async with daemon(conn, dsn, answers) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "I like chess")
        await d.ended()
        assert await rows(conn, RUNS) == [("sarah", "succeeded", None)]
        assert await rows(conn, "select what from noted") == [("c",)]
        uses = "select count(*) from agent.event where type = 'tool_use'"
        assert await value(conn, uses) == 1


@pytest.mark.slow
async def test_a_provider_that_fails_delays_the_answer(conn: AsyncConnection, dsn: str) -> None:
    """The turn is retried with what it was shown at first."""
    await run_all(conn, AGENT)
    model = ScriptedModel([in_turn(Fault(500), "At last.")])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        await value(conn, POST, thread, "one")
        await d.until(f"select count(*) = 1 from {TURNS} and state = 'waiting_retry'")
        await value(conn, POST, thread, "two")
        await set_clock(conn, "1 hour")
        await d.until("select count(*) > 0 from agent.event where author = 'sarah'")
        first, second, *_ = model.requests
        assert shown(first) == shown(second)


@pytest.mark.slow
async def test_agents_of_two_tenants_can_have_one_name(conn: AsyncConnection, dsn: str) -> None:
    """An event wakes the agent of its own tenant, which reads nothing of the other one."""
    await run_all(conn, AGENT + "insert into agent.tenant (name) values ('b')")
    model = ScriptedModel(["Hello."])
    async with role(conn) as other, daemon(conn, dsn, {"fake": model}) as d:
        await run_all(
            conn,
            f"select agent.grant_member('{other}'), agent.grant_developer('{other}');"
            f"insert into agent.principal (tenant, name, login) values ('b', 'bob', '{other}');"
            "insert into agent.role_grant (tenant, principal, role, granted_by)"
            " values ('b', 'bob', 'developer', 'test');",
        )
        async with session(dsn, user=other) as bob:
            await run_all(
                bob,
                "insert into agent.agent (name, model, system_prompt)"
                " values ('sarah', 'fake', 'You are the other Sarah.');"
                "select agent.attach_to_threads('sarah');",
            )
            mine, theirs = await value(conn, THREAD), await value(bob, THREAD)
            await refused(bob, "select agent.join_thread(%s)", mine, state="WA019")
            await value(bob, POST, theirs, "Hi from b!")
            await d.until(f"select count(*) = 1 from {TURNS} and state = 'succeeded'")
            await value(conn, POST, mine, "Hi!")
            await d.until(f"select count(*) = 2 from {TURNS} and state = 'succeeded'")
        tenants = await rows(conn, f"select tenant from {TURNS} order by id")
        assert tenants == [("b",), ("default",)]
        first, second = model.requests
        assert first.system.startswith("You are the other Sarah.")
        assert "from b" not in shown(second)
        await run_all(conn, "delete from agent.thread; delete from agent.attachment")


@pytest.mark.slow
async def test_older_events_are_summarized_by_a_run(conn: AsyncConnection, dsn: str) -> None:
    """What does not fit into a prompt leaves it, and is in the summary that follows."""
    await run_all(
        conn,
        MODEL + "insert into agent.agent (name, model) values ('sarah', 'fake');"
        "select agent.attach_to_threads('sarah', max_context_tokens => 500)",
    )

    def answer(request: Request) -> Answer:
        return "They counted." if request.system.startswith("You summarize") else "Noted."

    model = ScriptedModel([answer])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, THREAD)
        for n in range(12):
            await value(conn, POST, thread, f"number {n} " + "x" * 200)
            await d.until("select count(*) > %s from agent.event where author = 'sarah'", n)
        await d.until("select summary is not null from agent.thread")
        await d.caught_up()
        await value(conn, POST, thread, "And now?")
        await d.until(f"select bool_and(agent_internal.is_final(state)) from {TURNS}")
        await d.until("select count(*) = 13 from agent.event where author = 'sarah'")
        last = shown(model.requests[-1])
        if last.startswith("<summary"):  # a summary can follow each turn
            last = shown(model.requests[-2])
        assert "They counted." in last
        assert "number 0" not in last
        assert "And now?" in last
        summaries = f"select count(*) from {TURNS} and reason = 'summary' and state = 'succeeded'"
        assert await value(conn, summaries) >= 1


@pytest.mark.slow
async def test_a_thread_keeps_the_version_of_an_agent(conn: AsyncConnection, dsn: str) -> None:
    """From its first turn there on, until somebody chooses the newest; a new thread has that."""
    await run_all(conn, AGENT)
    model = ScriptedModel(["Yes."] * 20)
    async with daemon(conn, dsn, {"fake": model}) as d:

        async def prompt_of_a_turn(thread: object) -> str:
            count = await value(conn, f"select count(*) from {TURNS}")
            await value(conn, POST, thread, "Hi!")
            await d.until(
                f"select count(*) = %s and bool_and(state = 'succeeded') from {TURNS}", count + 1
            )
            return model.requests[-1].system.split(".", 1)[0]

        old = await value(conn, THREAD)
        assert await prompt_of_a_turn(old) == "You are Sarah"
        await run_all(conn, "update agent.agent set system_prompt = 'You are Sara.'")
        assert await prompt_of_a_turn(old) == "You are Sarah"
        assert await prompt_of_a_turn(await value(conn, THREAD)) == "You are Sara"
        versions = f"select attachment_version from {TURNS} order by id"
        assert [row[0] for row in await rows(conn, versions)] == [1, 1, 2]
        assert await value(conn, "select agent.use_newest_version('sarah', %s)", old) == 1
        assert await prompt_of_a_turn(old) == "You are Sara"
        await value(conn, "select agent.rollback('sarah', 1)")
        assert await prompt_of_a_turn(old) == "You are Sara"
        assert await value(conn, "select agent.use_newest_version('sarah')") == 2
        assert await prompt_of_a_turn(old) == "You are Sarah"
        # A version belongs to its attachment.
        await run_all(
            conn,
            "select agent.detach('sarah');"
            "insert into agent.agent (name, model, system_prompt)"
            " values ('sarah', 'fake', 'I am new.');"
            "select agent.attach_to_threads('sarah')",
        )
        assert await prompt_of_a_turn(old) == "I am new"
    async with role(conn) as member, session(dsn, user=member) as own:
        await run_all(conn, f"select agent.grant_member('{member}')")
        await refused(own, "select agent.use_newest_version('sarah')", state="42501")


async def test_a_budget_of_an_agent_counts_its_turns(conn: AsyncConnection, dsn: str) -> None:
    """As one of its attachment does."""
    await run_all(
        conn,
        AGENT + "insert into agent.budget (name, agent, period, max_cost) values"
        " ('hers', 'sarah', 'day', 1);"
        "insert into agent.budget (name, attachment, period, max_cost)"
        " select 'its', name, 'day', 1 from agent.attachment",
    )
    async with daemon(conn, dsn, ["Hello there."]) as d:
        await value(conn, POST, await value(conn, THREAD), "Hi!")
        await d.ended()
        spent = "select name, spent_tokens > 0 from agent.budget_overview order by 1"
        assert await rows(conn, spent) == [("hers", True), ("its", True)]
