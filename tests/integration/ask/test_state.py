"""What is kept of questions, whose it is, and what they may cost."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import column, refused, role, rows, run_all, session, until, value
from tests.helpers.queue import set_clock
from tests.integration.ask.test_asking import COUNT, Scene, answer, plan, scene, step
from tests.integration.cli.test_ask import ANSWER, KEY, PLAN, QUESTION, shell
from tests.integration.cli.user import PATIENCE, User
from walagent import AsyncClient
from walagent.ask.asking import Asker, AskResources
from walagent.ask.history import messages, size, too_old
from walagent.ask.options import Options
from walagent.config import AskSettings
from walagent.errors import (
    BudgetExceededError,
    ConfigError,
    LimitReachedError,
    ModelUnauthorizedError,
    PreconditionError,
)
from walagent.message import Request, Text
from walagent.models.script import Answer
from walagent.store.questions import SessionHistory, Turn
from walagent.store.sessions.connections import open_pool
from walagent.telemetry import metrics
from walagent.testing import Fault, call

TWO = [plan(step("a", COUNT)), answer("Twenty in each.")]
NOTHING_OPEN = "select count(*) = 0 from agent.spend where settled_at is null"
LEFT = "select spent_tokens, reserved_tokens from agent.budget_overview"


def with_history(resources: AskResources, most: int) -> Asker:
    """An asker that tells so many characters of earlier turns."""
    return Asker(replace(resources, history=most), Options(), name="test")


# History.


def turns(*answers: str) -> SessionHistory:
    """Turns with these answers."""
    return SessionHistory(
        "", [Turn(n, f"question {n}", {"answer": each}) for n, each in enumerate(answers)]
    )


def test_turns_are_shown_for_as_long_as_they_fit() -> None:
    """Then half of the room is kept for those to come, and the rest must be summed up."""
    four = turns(*["x" * 90] * 4)
    each = size(four.turns[0])
    assert too_old(four, 4 * each) == ()
    assert [turn.id for turn in too_old(four, 3 * each)] == [0, 1, 2]
    assert len(messages(four, 2 * each)) == 4
    told = messages(SessionHistory("It was about x.", four.turns[3:]), 2 * each)
    assert "It was about x." in str(told[0].parts)
    assert told[2].parts == (Text("question 3"),)


def test_a_turn_is_shown_without_its_rows() -> None:
    """Long answers are cut; of results it is said how large they are and where they are kept."""
    result = {"id": "7.a", "rows": 1000, "columns": ["country", "n"]}
    turn = Turn(1, "How many?", {"answer": "x" * 9000, "sql": ["select 1"], "results": [result]})
    (_, told) = messages(SessionHistory("", [turn]), 10_000)
    text = str(told.parts)
    assert "(result 7.a: 1,000 rows of country, n)" in text
    assert "select 1" in text
    assert size(turn) < 2_200


@pytest.mark.slow
async def test_what_is_beyond_the_room_is_summed_up_once(conn: AsyncConnection, dsn: str) -> None:
    """By one call; what is kept is told to later questions, without a further call."""
    summary = call("summary", text="Each country has twenty customers.")
    long = [plan(step("a", COUNT)), answer("Twenty. " + "x" * 700)]
    replies = [*long, *long, summary, *TWO, *TWO]
    async with scene(conn, dsn, replies) as on:
        asker = with_history(on.resources, 1500)
        for question in ("one?", "two?", "three?", "four?"):
            await asker.ask(question, "s")
        asked = [str(each.body) for each in on.provider.received]
        assert len(asked) == 9
        assert "one?" in asked[4]
        assert "two?" in asked[4]
        assert "keep the memory" in asked[4]
        for later in asked[5:]:
            assert "Each country has twenty customers." in later
            assert "xxxx" not in later
        assert "three?" in asked[7]
        by = "select content ->> 'by' from agent.step where kind = 'reply' order by run_id, seq"
        assert (await column(conn, by))[4:7] == ["summary", "planner", "answer"]
        assert await asker.history("s") == ["one?", "two?", "three?", "four?"]


@pytest.mark.slow
async def test_a_summary_that_is_none_stops_nothing(conn: AsyncConnection, dsn: str) -> None:
    """The oldest turns are not told then, and the next question tries again."""
    long = [plan(step("a", COUNT)), answer("y" * 1200)]
    replies = [*long, *long, call("summary", text=" "), *TWO]
    async with scene(conn, dsn, replies) as on:
        asker = with_history(on.resources, 1500)
        for question in ("one?", "two?"):
            await asker.ask(question, "s")
        found = await asker.ask("three?", "s")
        assert found.text == "Twenty in each."
        assert await value(conn, "select summary is null from agent.session")
        assert "two?" in str(on.provider.received[-2].body)
        assert "one?" not in str(on.provider.received[-2].body)


@pytest.mark.slow
async def test_a_large_result_is_kept_once(conn: AsyncConnection, dsn: str) -> None:
    """In the step that gave it; later prompts hold a sample at most, and later turns none."""
    many = "select n, repeat('z', 200) as long from generate_series(1, 1000) n"
    analysis = {
        "id": "sum",
        "type": "ANALYZE",
        "description": "",
        "tool_input": {"sql": "select sum(n) as total from a"},
        "depends_on": ["a"],
    }
    approved = call("verdict", approved=True, reason="")
    replies = [plan(step("a", many), analysis), approved, answer("500500."), *TWO]
    async with scene(conn, dsn, replies) as on:
        found = await on.ask("What is the sum?")
        assert list(found.results["sum"].rows) == [(500500,)]
        await on.ask("And now?")
        sizes = [len(str(each.body)) for each in on.provider.received]
        assert max(sizes) < 40_000
        assert "zzzz" not in str(on.provider.received[3].body)
        told = f"(result {found.run_id}.a: 1,000 rows of n, long)"
        assert told in str(on.provider.received[3].body)
        holding = "select count(*) from agent.step where content::text like '%zzzz%'"
        assert await value(conn, holding) == 1
        assert (
            await value(conn, "select count(*) from agent.question where answer::text like '%zz%'")
            == 0
        )


# Budgets.


async def make_budget(conn: AsyncConnection, tokens: int, **columns: object) -> None:
    """A budget of so many tokens in all."""
    given = {"name": "b", "period": "total", "max_tokens": tokens, "on_exceeded": "fail", **columns}
    marks = ", ".join(["%s"] * len(given))
    await conn.execute(
        f"insert into agent.budget ({', '.join(given)}) values ({marks})".encode(),
        list(given.values()),
    )


async def test_a_question_counts_in_the_budgets_that_cover_it(
    conn: AsyncConnection, dsn: str
) -> None:
    """One for everything, one for its model, one for who asks; none of an agent, none of others."""
    async with scene(conn, dsn, TWO) as on, role(conn) as other:
        model = on.resources.asked.spec.name
        await run_all(
            conn,
            f"insert into agent.model (name, provider, model_id) values ('{model}', 'openai', 'm')"
            " on conflict do nothing",
        )
        await make_budget(conn, 10**9, name="all")
        await make_budget(conn, 10**9, name="model", model=model)
        await make_budget(conn, 10**9, name="mine", asker=conn.info.user)
        await make_budget(conn, 10**9, name="other", asker=other)
        found = await on.ask("How many?")
        spent = await rows(conn, "select name, spent_tokens from agent.budget_overview order by 1")
        used = found.tokens
        assert spent == [("all", used), ("mine", used), ("model", used), ("other", 0)]
        assert await value(conn, "select count(*) from agent.spend where budget_id = 1") == 2
        assert await value(conn, NOTHING_OPEN)
        assert await rows(conn, "select * from agent.broken_invariant") == []


@pytest.mark.slow
async def test_an_exhausted_budget_refuses_and_says_which(conn: AsyncConnection, dsn: str) -> None:
    """Before anything is asked; the question has failed, and nothing waits."""
    async with scene(conn, dsn, TWO) as on:
        await make_budget(conn, 100)
        with pytest.raises(LimitReachedError, match='budget "b"') as caught:
            await on.ask("How many?")
        assert "walagent agents budgets" in caught.value.hint
        assert on.provider.received == []
        assert await value(conn, "select state::text from agent.run") == "failed"
        assert await rows(conn, LEFT) == [(0, 0)]


async def test_a_question_in_the_middle_goes_on_when_there_is_room(
    conn: AsyncConnection, dsn: str
) -> None:
    """The plan is kept; its session asks only for the answer."""
    async with scene(conn, dsn, TWO) as on:
        await make_budget(conn, 10**9, period="month", on_exceeded="wait")
        await run_all(conn, "update agent.budget set max_tokens = 10000000")
        asker = Asker(on.resources, Options(), name="test")
        await run_all(
            conn,
            "create function spend_all() returns trigger language plpgsql as $$ begin"
            " update agent_internal.budget_use set spent_tokens = 10000000; return null; end $$;"
            " create trigger spend_all after insert on agent.step for each row"
            " when (new.kind = 'result') execute function spend_all()",
        )
        with pytest.raises(BudgetExceededError, match="exhausted"):
            await asker.ask("How many?", "s")
        assert await value(conn, "select state::text from agent.run") == "waiting_retry"
        assert await value(conn, "select waiting from agent.budget_overview") == 1
        assert await value(conn, NOTHING_OPEN)
        await run_all(conn, "update agent.budget set max_tokens = 100000000")
        found = await asker.resume("s")
        assert found is not None
        assert found.text == "Twenty in each."
        assert len(on.provider.received) == 2


@pytest.mark.slow
async def test_plans_that_are_asked_for_side_by_side_reserve_each(
    conn: AsyncConnection, dsn: str
) -> None:
    """None lets go of what another one holds, and each is settled by its own reply."""
    plans = [plan(step("a", COUNT))] * 3
    async with scene(conn, dsn, [*plans, answer("So.")], latency=0.5) as on:
        await make_budget(conn, 10**9)
        asking = asyncio.create_task(on.ask("How many?", candidates=3))
        await until(conn, "select count(*) = 3 from agent.spend where settled_at is null")
        found = await asking
        assert await rows(conn, LEFT) == [(found.tokens, 0)]
        assert await value(conn, "select count(*) from agent.spend") == 4
        assert await rows(conn, "select * from agent.broken_invariant") == []


@pytest.mark.slow
async def test_a_budget_of_an_asker_stands_in_the_file(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Doing it again changes nothing; a login that is not there is named, and no agent may be."""
    name = str(conn.info.user)
    user = User(tmp_path, dsn)
    user.writes(f"budgets: {{mine: {{asker: {name}, max_tokens: 9000}}}}\n")
    await asyncio.to_thread(lambda: user.types("apply").worked())
    again = await asyncio.to_thread(lambda: user.types("apply", "--json").worked())
    assert "mine" not in again.out
    listed = await asyncio.to_thread(lambda: user.types("agents", "budgets").worked())
    assert "asker" in listed.out
    assert name in listed.out
    user.writes("budgets: {mine: {asker: nobody_here, max_tokens: 9000}}\n")
    wrong = await asyncio.to_thread(lambda: user.types("apply"))
    assert 'role "nobody_here" does not exist' in wrong.err
    user.writes("budgets: {mine: {asker: x, agent: y, max_tokens: 9000}}\n")
    wrong = await asyncio.to_thread(lambda: user.types("apply"))
    assert "asker cannot be combined" in wrong.err


async def test_a_call_that_failed_gives_back_what_it_reserved(
    conn: AsyncConnection, dsn: str
) -> None:
    """With the question, whatever becomes of it."""
    async with scene(conn, dsn, [Fault(status=401)]) as on:
        await make_budget(conn, 10**9)
        with pytest.raises(ModelUnauthorizedError):
            await on.ask("How many?")
        assert await rows(conn, LEFT) == [(0, 0)]


@pytest.mark.slow
async def test_what_a_killed_process_has_reserved_comes_back(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With the next question of anybody, when the lease is over; no daemon need be there."""
    asked = asyncio.Event()

    def silent(_request: Request) -> Answer:
        asked.set()
        return Fault(stall=60.0)

    async with shell(conn, dsn, tmp_path, [silent, PLAN, ANSWER]) as on:
        await make_budget(conn, 10**9)
        with on.user.starts("ask", QUESTION, "--session", "one") as killed:
            await asyncio.wait_for(asked.wait(), PATIENCE)
            assert await value(conn, "select reserved_tokens > 0 from agent.budget_overview")
            assert await asyncio.to_thread(killed.ends, signal.SIGKILL) == -signal.SIGKILL
        await set_clock(conn, "1 minute")
        (await on.types("ask", QUESTION, "--session", "two")).worked()
        assert await value(conn, NOTHING_OPEN)
        assert await value(conn, "select reserved_tokens from agent.budget_overview") == 0
        state = "select state::text from agent.run order by id"
        assert await column(conn, state) == ["pending", "succeeded"]
        assert await rows(conn, "select * from agent.broken_invariant") == []


@pytest.mark.slow
async def test_a_used_up_budget_ends_the_command(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With its name, what is left, and where to look."""
    async with shell(conn, dsn, tmp_path, []) as on:
        await make_budget(conn, 100)
        ended = await on.types("ask", QUESTION)
        assert ended.code == 1
        assert 'budget "b"' in ended.err
        assert "walagent agents budgets" in ended.err


@pytest.mark.slow
async def test_a_question_that_nobody_went_on_with_ends(conn: AsyncConnection, dsn: str) -> None:
    """After a week, so that it can be pruned; until then its session can finish it."""
    async with scene(conn, dsn, [Fault(status=401), *TWO, *TWO]) as on:
        with pytest.raises(ModelUnauthorizedError):
            await on.ask("How many?", "one")
        states = "select array_agg(state::text order by id) from agent.run"
        await set_clock(conn, "6 days")
        await on.ask("How many?", "two")
        assert await value(conn, states) == ["pending", "succeeded"]
        await set_clock(conn, "8 days")
        await on.ask("How many?", "three")
        assert await value(conn, states) == ["cancelled", "succeeded", "succeeded"]
        assert await Asker(on.resources, Options(), name="test").resume("one") is None
        assert await rows(conn, "select * from agent.broken_invariant") == []


# Rights.


@asynccontextmanager
async def asker_login(
    conn: AsyncConnection, dsn: str, replies: Sequence[Answer]
) -> AsyncIterator[tuple[Scene, str]]:
    """A login that may ask, and nothing else; the resources are its own."""
    async with scene(conn, dsn, replies) as on, role(conn) as name:
        await conn.execute("select agent.grant_asker(%s)", [name])
        await run_all(conn, f"grant analyst_{conn.info.dbname} to {name}")
        theirs = make_conninfo(dsn, user=name)
        async with open_pool(theirs, size=3, application="ask") as pool:
            resources = replace(on.resources, pool=pool)
            resources.catalog._pool = pool  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
            yield replace(on, resources=resources), name
        await run_all(conn, f"delete from agent.session where owner = '{name}'")


@pytest.mark.slow
async def test_a_login_that_only_asks_can_ask(conn: AsyncConnection, dsn: str) -> None:
    """Questions, sessions, examples, words, and the index of the schema."""
    async with asker_login(conn, dsn, [*TWO, *TWO]) as (on, name):
        asker = Asker(on.resources, Options(), name="test")
        assert (await asker.ask("How many?", "s")).text == "Twenty in each."
        assert (await asker.ask("Again?", "s")).text == "Twenty in each."
        await asker.save("How many?", COUNT)
        assert await asker.history("s") == ["How many?", "Again?"]
        assert (await asker.index()).tables > 5
        assert await value(conn, "select owner::text from agent.session") == name
        assert await rows(conn, "select * from agent.broken_invariant") == []


@pytest.mark.slow
async def test_the_command_needs_no_more_than_that(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Typed by somebody who may ask, and is the analyst's member."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on, role(conn) as name:
        await conn.execute("select agent.grant_asker(%s)", [name])
        await run_all(conn, f"grant {on.role} to {name}")
        theirs = User(tmp_path, make_conninfo(dsn, user=name), {KEY: on.provider.key})
        ended = await asyncio.to_thread(theirs.types, "ask", QUESTION)
        assert "Twenty in each country." in ended.worked().out


@pytest.mark.few(9)
@pytest.mark.parametrize(
    "statement",
    [
        "select * from agent.run",
        "select * from agent.step",
        "select * from agent.approval",
        "select * from agent.attachment",
        "select * from agent.budget",
        "select * from agent_internal.secret",
        "insert into agent.session (id) values ('x')",
        "update agent.session set owner = 'somebody'",
        "insert into agent.question (session_id, text) values ('s', 'x')",
        "update agent.question set text = 'x'",
        "update agent.question set run_id = null",
        "delete from agent.question",
        "update agent.model set base_url = 'https://attacker.example'",
        "select agent.approve(1)",
        "select agent.cancel(1)",
        "select agent.retry(1)",
        "select agent.attach('customer', 'model=m')",
        "select agent_internal.settle(1, 1, 0, null, 0)",
        "select agent_internal.release(1)",
        "select agent_internal.release_runs('w')",
        "select agent_internal.record_many('[]')",
        "select agent_internal.insert_step(1, 0, 'reply', '{}')",
        "select agent_internal.begin_write(1, 1)",
        "select agent_internal.become('postgres')",
        "select agent_internal.expire_leases()",
        "select agent_internal.tick()",
        "select agent.grant_asker('public')",
    ],
)
async def test_a_login_that_only_asks_can_do_nothing_else(
    conn: AsyncConnection, dsn: str, statement: str
) -> None:
    """No agents, no runs, no approvals, no definitions."""
    async with role(conn) as name:
        await conn.execute("select agent.grant_asker(%s)", [name])
        async with session(dsn, user=name) as login:
            await refused(login, statement, state="42501")


@pytest.mark.slow
async def test_a_session_is_its_owners(conn: AsyncConnection, dsn: str) -> None:
    """Another login that may ask cannot read it, go on with it, or touch its run."""
    async with asker_login(conn, dsn, [*TWO, Fault(status=401)]) as (on, _), role(conn) as other:
        asker = Asker(on.resources, Options(), name="test")
        await asker.ask("How many?", "s")
        with pytest.raises(ModelUnauthorizedError):
            await asker.ask("Unfinished?", "s")
        await asker.save("How many?", COUNT)
        await conn.execute("select agent.grant_asker(%s)", [other])
        async with open_pool(make_conninfo(dsn, user=other), size=1, application="x") as pool:
            theirs = Asker(replace(on.resources, pool=pool), Options(), name="other")
            with pytest.raises(ConfigError, match="belongs to another role"):
                await theirs.ask("How many?", "s")
            assert await theirs.resume("s") is None
            assert await theirs.history("s") == []
        async with session(dsn, user=other) as login:
            for table in ("session", "question", "verified_query", "glossary"):
                assert await rows(login, f"select * from agent.{table}") == []
            assert await rows(login, "select * from agent_internal.schema_index") == []
            stolen = (
                "insert into agent.verified_query (owner, question, sql) values ('x', 'q', 's')"
            )
            await refused(login, stolen, state="42501")


@pytest.mark.slow
async def test_examples_and_words_are_those_of_who_asks(conn: AsyncConnection, dsn: str) -> None:
    """The nearest questions, a few of them, and the words of the question before all others."""
    async with asker_login(conn, dsn, TWO) as (on, name):
        asker = Asker(on.resources, Options(), name="test")
        for n in range(9):
            await asker.save(f"How many customers are of kind {n}?", f"select {n} as kind_{n}")
        await run_all(
            conn,
            "insert into agent.verified_query (question, sql)"
            " values ('How many customers?', 'select 99');"
            f"insert into agent.glossary (owner, term, meaning)"
            f" values ('{name}', 'churned', 'gone');"
            "insert into agent.glossary (term, meaning) values ('churned', 'of somebody else');"
            f"insert into agent.glossary (owner, term, meaning)"
            f" select 'analyst_{conn.info.dbname}', term, 'of all' from unnest("
            f" array['customers', 'churned']) term;"
            f"insert into agent.glossary (owner, term, meaning)"
            f" select '{name}', 'a' || n, repeat('m', 300) from generate_series(1, 200) n;",
        )
        await asker.ask("How many customers have churned?", "s")
        first = str(on.provider.received[0].body)
        assert "churned: gone" in first
        assert "customers: of all" in first
        assert "of somebody else" not in first
        assert "select 99" not in first
        assert sum(f"kind_{n}" in first for n in range(9)) == 5
        assert first.count("mmmm" * 70) < 20


async def test_what_is_missing_is_named(conn: AsyncConnection, dsn: str) -> None:
    """A login without the grant."""
    async with (
        scene(conn, dsn, TWO) as on,
        role(conn) as name,
        open_pool(make_conninfo(dsn, user=name), size=1, application="x") as pool,
    ):
        asker = Asker(replace(on.resources, pool=pool), Options(), name="test")
        with pytest.raises(PreconditionError, match="permission denied"):
            await asker.ask("How many?", "s")


# Scope.


@pytest.mark.slow
async def test_none_that_you_may_see_is_not_none(conn: AsyncConnection, dsn: str) -> None:
    """The answer is told so, and the reader, in words and as JSON; where nothing hides, neither."""
    empty = plan(step("a", "select * from customer where country = 'XX'"))
    approved = call("verdict", approved=True, reason="")
    replies = [empty, approved, answer("None."), empty, approved, answer("None that you may see.")]
    async with scene(conn, dsn, replies) as on:
        free = await on.ask("Who is from XX?")
        assert free.scope == []
        assert "Scope:" not in str(on.provider.received[2].body)
        await run_all(
            conn,
            "alter table customer enable row level security;"
            " create policy swiss on customer using (country = 'CH')",
        )
        found = await on.ask("Who is from XX?")
        analyst = f"analyst_{conn.info.dbname}"
        said = f"public.customer: only rows that {analyst} can see (row level security)"
        assert list(found.scope) == [said]
        assert said in found.caveats
        assert found.to_json()["scope"] == [said]
        assert f"Scope: {said}" in str(on.provider.received[-1].body)
        kept = "select answer -> 'scope' ->> 0 from agent.question order by id desc limit 1"
        assert await value(conn, kept) == said


# Sessions.


@pytest.mark.slow
async def test_a_session_is_deleted_with_all_that_it_has(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """By its owner alone; the same name begins a new one."""
    stored = "select (select count(*) from agent.session), (select count(*) from agent.run)"
    async with (
        shell(conn, dsn, tmp_path, [PLAN, ANSWER] * 2) as on,
        role(conn) as login,
        role(conn) as other,
    ):
        for each in (login, other):
            await run_all(conn, f"select agent.grant_asker('{each}'); grant {on.role} to {each}")
        theirs = ("--dsn", make_conninfo(dsn, user=login))
        (await on.types("ask", QUESTION, "--session", "s", *theirs)).worked()
        assert await rows(conn, stored) == [(1, 1)]
        not_theirs = ("--dsn", make_conninfo(dsn, user=other))
        ended = await on.types("knowledge", "sessions", "--delete", "s", *not_theirs)
        assert (ended.code, "does not exist" in ended.err) == (2, True)
        assert await rows(conn, stored) == [(1, 1)]
        assert "s " in (await on.types("knowledge", "sessions", *theirs)).worked().out
        deleted = (
            await on.types("knowledge", "sessions", "--delete", "s", "--json", *theirs)
        ).worked()
        assert deleted.json == {"deleted": ["s"]}
        assert await rows(conn, stored) == [(0, 0)]
        assert await value(conn, "select count(*) from agent.step") == 0
        assert await value(conn, "select count(*) from agent_internal.queue") == 0
        (await on.types("ask", QUESTION, "--session", "s", *theirs)).worked()
        assert QUESTION not in str(on.provider.received[2].body["messages"][:-1])


async def test_a_question_replaces_the_unfinished_one_before_it(
    conn: AsyncConnection, dsn: str
) -> None:
    """Unless a process holds that: it is waited for, not cancelled."""
    async with scene(conn, dsn, [Fault(status=401), *TWO]) as at:
        with pytest.raises(ModelUnauthorizedError):
            await at.ask("one")
        assert (await at.ask("two")).status == "answered"
    states = "select state::text from agent.run order by id"
    assert await column(conn, states) == ["cancelled", "succeeded"]
    reason = "select error ->> 'reason' from agent.run order by id limit 1"
    assert "replaced" in str(await value(conn, reason))


@pytest.mark.slow
async def test_the_run_of_a_question_is_shown_and_counted(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """`walagent show` prints it as any other; calls, tokens and time count in the metrics."""
    before = _samples()
    async with (
        shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on,
        AsyncClient(
            dsn,
            model=replace(on.provider.spec("openai"), credential=KEY),
            api_key=on.provider.key,
            settings=AskSettings(role=on.role),
        ) as client,
    ):
        run = (await client.ask(QUESTION)).run_id
        shown = (await on.types("show", str(run))).worked().out
        assert COUNT in shown
        assert "Twenty in each country." in shown
    counted = {name: value - before.get(name, 0.0) for name, value in _samples().items()}
    assert (
        sum(n for name, n in counted.items() if name.startswith("walagent_model_requests_total"))
        == 2
    )
    assert (
        sum(n for name, n in counted.items() if name.startswith("walagent_tool_calls_total")) == 1
    )
    assert counted["walagent_run_duration_seconds_count"] == 1


def _samples() -> dict[str, float]:
    """What the metrics of this process say."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {
        name: float(number)
        for name, _, number in (line.rpartition(" ") for line in lines if line[0] != "#")
    }
