"""Questions end to end: a real database, the real SDK, a provider whose answers are scripted."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, rows, run_all, value
from tests.helpers.guard import STAGE
from tests.integration.wal.reading import until
from walagent.ask.answering import become
from walagent.ask.asking import Asker, AskResources
from walagent.ask.catalog import Catalog
from walagent.ask.options import Options
from walagent.ask.outcome import QuestionEvent, QuestionResult, SessionWaiting
from walagent.ask.search import Searcher
from walagent.ask.statements import Statements
from walagent.errors import (
    ConfigError,
    DatabaseLostError,
    ModelUnauthorizedError,
    PreconditionError,
)
from walagent.guard.query import Guard
from walagent.guard.role import check_role
from walagent.message import Json
from walagent.models import build_model
from walagent.models.script import Answer, ScriptedCall
from walagent.store.sessions.connections import connect, open_pool
from walagent.testing import FakeProvider, Fault, call

COUNT = "select country, count(*) as n from customer group by 1 order by 1"


def step(name: str, query: str, *needs: str, **more: Json) -> dict[str, Json]:
    """A step of a plan."""
    return {
        "id": name,
        "type": "SQL",
        "description": name,
        "tool_input": {"query": query},
        "depends_on": list(needs),
        **more,
    }


def plan(*steps: dict[str, Json], **more: Json) -> ScriptedCall:
    """The planner's reply."""
    return call("plan", reasoning="because", steps=list(steps), **more)


def answer(text: str, *caveats: str) -> ScriptedCall:
    """The last reply."""
    return call("answer", text=text, caveats=list(caveats))


def in_order(replies: Sequence[Answer]) -> Answer:
    """Replies in the order in which they are asked for, whatever is asked."""
    left = iter(replies)
    return lambda _: next(left)


@dataclass
class Scene:
    """A database with a shop, a provider, and an asker."""

    conn: AsyncConnection
    provider: FakeProvider
    resources: AskResources
    events: list[QuestionEvent] = field(default_factory=list[QuestionEvent])

    async def ask(self, text: str, session: str = "s", **options: int) -> QuestionResult:
        """Ask."""
        return await Asker(self.resources, replace(Options(), **options), name="test").ask(
            text, session, self.events.append
        )


@asynccontextmanager
async def scene(
    conn: AsyncConnection,
    dsn: str,
    replies: Sequence[Answer],
    provider: str = "openai",
    latency: float = 0.0,
    *,
    searcher: Searcher | None = None,
) -> AsyncIterator[Scene]:
    """Open everything that a question takes."""
    role = f"analyst_{conn.info.dbname}"
    await run_all(conn, (STAGE / "fixture.sql").read_text())
    await run_all(
        conn,
        f"""
        create role {role};
        grant usage on schema public to {role};
        revoke create on schema public from public;
        grant select on all tables in schema public to {role};
        """,
    )
    try:
        async with (
            FakeProvider([in_order(replies)] * 20, latency=latency) as fake,
            open_pool(dsn, size=3, application="ask") as pool,
            await connect(dsn) as one,
            await connect(dsn) as two,
        ):
            for each in (one, two):
                await become(each, role)
                await check_role(each)

            model = build_model(fake.spec(provider), environ=fake.environ)
            executor = Statements([Guard(one), Guard(two)], searcher=searcher)
            resources = AskResources(pool, executor, model, Catalog(pool, executor))
            yield Scene(conn, fake, resources)
            await model.aclose()
    finally:
        await run_all(conn, f"drop owned by {role}; drop role {role}")


@pytest.mark.slow
async def test_a_question_that_is_being_answered_is_waited_for_and_not_taken(
    conn: AsyncConnection, dsn: str
) -> None:
    """It takes longer than a lease; the process that answers it says that it lives."""
    replies = [plan(step("a", COUNT)), answer("Twenty in each.")]
    async with scene(conn, dsn, replies, latency=2.4) as on:
        resources = replace(on.resources, lease=timedelta(seconds=2))
        first = asyncio.create_task(Asker(resources, Options(), name="test").ask("How many?", "s"))
        await until(conn, "select exists (select from agent.run)")
        seen = list[QuestionEvent]()
        assert await Asker(resources, Options(), name="other").resume("s", seen.append) is None
        assert [type(event) for event in seen] == [SessionWaiting]
        ended = await rows(conn, "select state::text, attempt, worker from agent.run")
        assert ended == [("succeeded", 1, "test")]
        assert (await first).text == "Twenty in each."


@pytest.mark.few(1)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_plain_question_takes_two_calls_and_shows_its_sql(
    conn: AsyncConnection, dsn: str, provider: str
) -> None:
    """The answer, its rows and its statement; and all of it is a run with steps."""
    replies = [plan(step("a", COUNT), assumptions=["all of them"]), answer("Twenty in each.")]
    async with scene(conn, dsn, replies, provider) as on:
        found = await on.ask("How many customers are there in each country?")
        assert (found.status, found.text) == ("answered", "Twenty in each.")
        assert list(found.results["a"].rows) == [("CH", 20), ("DE", 20), ("FR", 20)]
        assert list(found.sql) == [COUNT]
        assert list(found.assumptions) == ["all of them"]
        assert len(on.provider.received) == 2
        assert found.tokens > 0
        run = await rows(conn, "select reason, state::text, result, attachment_id from agent.run")
        assert run == [("question", "succeeded", "Twenty in each.", None)]
        kinds = await column(conn, "select kind from agent.step order by seq")
        assert kinds == ["reply", "result", "reply"]
        assert await rows(conn, "select * from agent.broken_invariant") == []


@pytest.mark.slow
async def test_the_planner_sees_the_schema_and_no_rows(conn: AsyncConnection, dsn: str) -> None:
    """Only what the analyst may read; results come to the answer as data, with a marker."""
    await run_all(conn, "create table hidden (id integer)")
    async with scene(conn, dsn, [plan(step("a", COUNT)), answer("So.")]) as on:
        await run_all(conn, f"revoke select on hidden from analyst_{conn.info.dbname}")
        await on.ask("How many?")
        first, second = (str(each.body) for each in on.provider.received)
        assert "table public.customer" in first
        assert "one of open, paid, void" in first
        assert "public.hidden" not in first
        assert "customer 1" not in first
        assert "CH | 20" in second


async def test_a_statement_that_fails_is_planned_again_without_values(
    conn: AsyncConnection, dsn: str
) -> None:
    """With SQLSTATE and place; what an error quotes of rows stays here."""
    replies = [
        plan(step("a", "select nope from customer")),
        plan(step("a", "select name::integer from customer")),
        plan(step("a", COUNT)),
        answer("So."),
    ]
    async with scene(conn, dsn, replies) as on:
        found = await on.ask("How many?")
        assert found.status == "answered"
        told = [str(each.body) for each in on.provider.received]
        assert "SQLSTATE 42703, at character 8" in told[1]
        assert "invalid text representation (SQLSTATE 22P02)" in told[2]
        assert "customer 1" not in told[2]


@pytest.mark.slow
async def test_hostile_sql_does_nothing_and_is_reported(conn: AsyncConnection, dsn: str) -> None:
    """The planner hears why; the third time the question is given up, with the reason."""
    hostile = plan(step("a", "with x as (delete from customer returning 1) select * from x"))
    async with scene(conn, dsn, [hostile, hostile, hostile]) as on:
        found = await on.ask("Clean up.")
        assert found.status == "error"
        assert "data-modifying" in found.text
        assert await value(conn, "select count(*) from customer") == 60
        assert await value(conn, "select state::text from agent.run") == "failed"


@pytest.mark.slow
async def test_steps_feed_an_analysis(conn: AsyncConnection, dsn: str) -> None:
    """Rows go from the database to DuckDB, not through the model."""
    analysis = {
        "id": "share",
        "type": "ANALYZE",
        "description": "",
        "tool_input": {"sql": "select 100.0 * paid.n / total.n as percent from paid, total"},
        "depends_on": ["paid", "total"],
    }
    replies = [
        plan(
            step("paid", "select count(*) as n from invoice where state = 'paid'"),
            step("total", "select count(*) as n from invoice"),
            analysis,
        ),
        call("verdict", approved=True, reason=""),
        answer("A third."),
    ]
    async with scene(conn, dsn, replies) as on:
        found = await on.ask("What share of the invoices is paid?")
        assert [round(float(x), 1) for (x,) in found.results["share"].rows] == [33.5]
        assert len(on.provider.received) == 3


@pytest.mark.parametrize(("outcome", "status"), [("clarify", "clarify"), ("refuse", "refused")])
async def test_a_question_can_come_back(
    conn: AsyncConnection, dsn: str, outcome: str, status: str
) -> None:
    """Asked back, or refused with the reason; nothing is run."""
    replies = [call("plan", reasoning="r", outcome=outcome, reply="Which year?", steps=[])]
    async with scene(conn, dsn, replies) as on:
        found = await on.ask("And last year?")
        assert (found.status, found.text) == (status, "Which year?")


@pytest.mark.slow
async def test_no_rows_are_noted_and_the_critic_looks(conn: AsyncConnection, dsn: str) -> None:
    """Its objection leads to one other plan; what remains is said in the answer."""
    empty = plan(step("a", "select * from customer where false"))
    no = call("verdict", approved=False, reason="look at invoices")
    replies = [empty, no, empty, no, answer("None that I can see.")]
    async with scene(conn, dsn, replies) as on:
        found = await on.ask("Who is late?")
        assert found.status == "answered"
        assert list(found.caveats) == ["look at invoices", "a: there are no rows"]
        assert "look at invoices" in str(on.provider.received[2].body)


@pytest.mark.slow
async def test_a_session_remembers(conn: AsyncConnection, dsn: str) -> None:
    """The planner sees the turns before; another login may not go on with them."""
    replies = [
        plan(step("a", COUNT)),
        answer("Twenty in each."),
        plan(step("a", COUNT)),
        answer("x"),
    ]
    async with scene(conn, dsn, replies) as on:
        await on.ask("How many customers are there in each country?")
        await on.ask("And in Germany?")
        third = str(on.provider.received[2].body)
        assert "How many customers are there in each country?" in third
        assert "Twenty in each." in third
        await run_all(conn, "update agent.session set owner = 'somebody'")
        with pytest.raises(ConfigError, match="belongs to another role"):
            await on.ask("And in France?")


async def test_a_cancelled_turn_is_cancelled(conn: AsyncConnection, dsn: str) -> None:
    """As Ctrl-C does in a chat."""
    async with scene(conn, dsn, [Fault(stall=30.0)]) as on:
        thinking = asyncio.Event()
        asker = Asker(on.resources, Options(), name="test")
        asking = asyncio.create_task(asker.ask("How many?", "s", lambda _: thinking.set()))
        await thinking.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert await value(conn, "select state::text from agent.run") == "cancelled"


async def test_a_wrong_key_leaves_the_question_to_be_resumed(
    conn: AsyncConnection, dsn: str
) -> None:
    """A person mends it, and the session goes on."""
    async with scene(conn, dsn, [Fault(status=401), plan(step("a", COUNT)), answer("So.")]) as on:
        with pytest.raises(ModelUnauthorizedError):
            await on.ask("How many?")
        found = await Asker(on.resources, Options(), name="two").resume("s")
        assert found is not None
        assert found.text == "So."


@pytest.mark.slow
async def test_the_result_that_most_plans_came_to_is_the_answer(
    conn: AsyncConnection, dsn: str
) -> None:
    """Asked for side by side; the critic sees that one of them came to another."""
    other = "select country, 19 as n from customer group by 1 order by 1"
    again = "select country as where, count(id)::numeric(9, 2) as how_many from customer group by 1"
    plans = [plan(step("a", query)) for query in (COUNT, other, again)]
    verdict = call("verdict", approved=True, reason="")
    replies = [*plans, verdict, answer("Twenty in each.")]
    async with scene(conn, dsn, replies, latency=0.3) as on:
        found = await on.ask("How many?", candidates=3)
        assert (found.status, found.agreement) == ("answered", "2 of 3 plans came to this")
        assert [int(n) for _, n in found.results["a"].rows] == [20, 20, 20]
        assert "only 2 of 3 plans came to this" in found.caveats
        assert len(on.provider.received) == 5
        assert on.provider.most_in_flight > 1


@pytest.mark.slow
async def test_a_question_goes_on_with_the_options_it_was_asked_with(
    conn: AsyncConnection, dsn: str
) -> None:
    """Two of three plans are there when the key is refused: the third alone is asked for."""
    plans = [plan(step("a", COUNT)), plan(step("a", COUNT)), Fault(status=401)]
    replies = [*plans, plan(step("a", "select nope")), answer("Twenty in each.")]
    async with scene(conn, dsn, replies) as on:
        with pytest.raises(ModelUnauthorizedError):
            await on.ask("How many?", candidates=3, retries=0)
        assert await value(conn, "select count(*) from agent.step") == 2
        found = await Asker(on.resources, Options(), name="two").resume("s")
        assert found is not None
        assert found.agreement == "2 of 2 plans came to this"
        assert len(on.provider.received) == 5
        kinds = await column(conn, "select content ->> 'candidate' from agent.step order by seq")
        assert sorted(kinds[:6], key=str) == ["1", "1", "2", "2", "3", "3"]


async def test_a_statement_that_fails_is_planned_again_as_often_as_is_said(
    conn: AsyncConnection, dsn: str
) -> None:
    """Not at all, here."""
    async with scene(conn, dsn, [plan(step("a", "select nope from customer"))]) as on:
        found = await on.ask("How many?", retries=0)
        assert found.status == "error"
        assert "42703" in found.text
        assert await value(conn, "select options -> 'retries' from agent.question") == 0


@pytest.mark.parametrize(
    ("text", "says"), [("  ", "the question is empty"), ("x" * 1_000_000, "1,000,000 characters")]
)
async def test_what_is_no_question_is_named(
    conn: AsyncConnection, dsn: str, text: str, says: str
) -> None:
    """And nothing is recorded."""
    async with scene(conn, dsn, []) as on:
        with pytest.raises(ConfigError, match=says):
            await on.ask(text)
        assert await value(conn, "select count(*) from agent.run") == 0


async def test_a_missing_analyst_is_named_with_how_to_make_it(
    conn: AsyncConnection,
) -> None:
    """So is one that this login may not be."""
    with pytest.raises(PreconditionError, match='role "nobody_here" does not exist') as caught:
        await become(conn, "nobody_here")
    assert "create role nobody_here" in caught.value.hint


async def test_a_lost_connection_is_one_error_and_no_group(conn: AsyncConnection, dsn: str) -> None:
    """Also where two steps run at once: their author is a person, who sees one line."""
    replies = [plan(step("a", COUNT), step("b", COUNT)), answer("Twenty in each.")]
    async with scene(conn, dsn, replies) as on:
        async with on.resources.statements.guard() as one, on.resources.statements.guard() as two:
            await one.conn.close()
            await two.conn.close()
        with pytest.raises(DatabaseLostError):
            await on.ask("How many?")


async def test_a_database_without_readable_tables_is_said_before_a_model_is_asked(
    conn: AsyncConnection, dsn: str
) -> None:
    """With the grants; no question is recorded."""
    async with scene(conn, dsn, []) as on:
        await run_all(
            conn,
            f"revoke select on all tables in schema public from analyst_{conn.info.dbname}",
        )
        with pytest.raises(PreconditionError, match="can read no table") as caught:
            await on.ask("How many?")
        assert "grant select on all tables" in caught.value.hint
        assert await value(conn, "select count(*) from agent.run") == 0
        assert on.provider.requests == 0
