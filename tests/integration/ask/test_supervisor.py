"""`Supervisor`: what programs that were written for PG Agent call, read and catch."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from pydantic import BaseModel, ValidationError

from tests.helpers.database import value
from tests.integration.ask.test_asking import answer, plan, step
from tests.integration.cli.test_ask import ANSWER, COUNT, KEY, PLAN, QUESTION, Shell, shell
from tests.integration.cli.test_asking import SHOP
from tests.integration.cli.user import empty_database
from walagent.config import AskSettings
from walagent.errors import DatabaseLostError, ModelUnavailableError
from walagent.message import ModelSpec
from walagent.models.script import Answer
from walagent.supervisor import (
    CircuitBreakerOpenError,
    CoordinationPattern,
    ExecutionError,
    OrchestrationState,
    Plan,
    PlanStep,
    Supervisor,
)
from walagent.testing import FakeProvider, Fault, call

NO = call("verdict", approved=False, reason="it counts orders, not customers")


def spec(fake: FakeProvider) -> ModelSpec:
    """A model that leads to the provider; no registry knows it."""
    return replace(fake.spec("openai"), credential=KEY)


@dataclass(frozen=True)
class Desk:
    """A supervisor and what it works with."""

    agent: Supervisor
    on: Shell


@asynccontextmanager
async def desk(
    conn: AsyncConnection, dsn: str, folder: Path, replies: Sequence[Answer], **more: object
) -> AsyncIterator[Desk]:
    """A supervisor whose model follows a script."""
    async with shell(conn, dsn, folder, replies) as on:
        given: dict[str, object] = {
            "api_key": on.provider.key,
            "db_url": dsn,
            "redis_url": "redis://localhost:6379",
            "model": spec(on.provider),
            "settings": AskSettings(role=on.role, connections=4),
        }
        yield Desk(Supervisor(**(given | more)), on)  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
async def test_results_have_the_shape_that_programs_read(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Rows and their number, checks, and arithmetic; all of it is JSON."""
    values = "select 1.25::numeric as price, date '2024-01-02' as day, now() as at, null as none"
    steps = plan(
        step("a", values),
        step("v", "", "a", type="VERIFY", tool_input=None),
        step("c", "", type="ANALYZE", tool_input={"operation": "calculate", "expression": "6*7"}),
    )
    approved = call("verdict", approved=True, reason="")
    async with desk(conn, dsn, tmp_path, [steps, approved, approved, answer("Done.")]) as at:
        state = await at.agent.orchestrate("s", CoordinationPattern.PARALLEL, QUESTION)
    assert state.is_complete
    assert state.results["a"]["row_count"] == 1
    row = state.results["a"]["results"][0]
    assert (row["price"], row["day"], row["none"]) == (1.25, "2024-01-02", None)
    assert state.results["v"]["status"] == "complete"
    assert state.results["v"]["verifications"] == {"a": "FAIL"}  # a column is NULL
    assert state.results["v"]["overall_pass"] is False
    assert state.results["c"]["results"] == [{"result": 42}]
    assert state.results["c"]["combined_results"] == [{"result": 42}]
    assert json.loads(json.dumps(state.results)) == state.results
    assert state.answer == "Done."
    assert state.outcome.text == "Done."


@pytest.mark.slow
async def test_a_state_is_a_model_that_can_be_changed_and_stored(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With the questions and answers of its session; one can be made by hand, too."""
    async with desk(conn, dsn, tmp_path, [PLAN, ANSWER, PLAN, ANSWER]) as at:
        first = await at.agent.orchestrate("s", question=QUESTION)
        state = await at.agent.orchestrate("s", CoordinationPattern.SEQUENTIAL, "And now?")
        assert QUESTION in str(at.on.provider.received[2].body)
    assert isinstance(state, BaseModel)
    assert [message.payload["question"] for message in state.history[::2]] == [QUESTION, "And now?"]
    assert state.history[1].payload["answer"] == "Twenty in each country."
    assert (state.history[0].sender, state.history[0].receiver) == ("user", "supervisor")
    assert len(first.history) == 2
    dumped = state.model_dump()
    assert dumped["results"]["a"]["row_count"] == 3
    restored = OrchestrationState.model_validate_json(state.model_dump_json())
    assert restored.model_dump_json() == state.model_dump_json()
    state.is_complete = False
    state.results["extra"] = {"note": "mine"}
    mine = OrchestrationState(session_id="x", plan=Plan(reasoning="r", steps=[PlanStep(
        id="1", type="SQL", description="d", tool_input={"query": "select 1"})]))  # pyright: ignore[reportArgumentType]  # fmt: skip
    assert (mine.pattern, mine.is_complete, mine.history) == ("SEQUENTIAL", False, [])
    with pytest.raises(ValidationError):
        OrchestrationState(session_id="x", results="none")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ExecutionError):
        _ = mine.outcome


@pytest.mark.slow
async def test_a_question_without_an_answer_is_not_complete(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A statement that failed for good, and a question that the tables cannot answer: no raise."""
    broken = plan(step("a", "select no"))
    refused = call("plan", reasoning="r", outcome="refuse", reply="There are no wages.", steps=[])
    async with desk(conn, dsn, tmp_path, [broken, refused], max_retries=0) as at:
        state = await at.agent.orchestrate("s", question=QUESTION)
        assert not state.is_complete
        assert "42703" in state.error
        assert "42703" in state.results["a"]["error"]
        state = await at.agent.orchestrate("s", question="Wages?")
        assert (state.is_complete, state.error, state.plan.steps) == (False, "", [])
        assert state.answer == "There are no wages."


@pytest.mark.slow
async def test_an_answer_that_the_critic_rejected_is_not_complete(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Twice; the answer is there all the same, with the objection."""
    replies = [PLAN, NO, PLAN, NO, ANSWER]
    async with desk(conn, dsn, tmp_path, replies, critic="always") as at:
        state = await at.agent.orchestrate("s", question=QUESTION)
        assert len(at.on.provider.received) == len(replies)
    assert not state.is_complete
    assert state.answer == "Twenty in each country."
    assert "it counts orders, not customers" in state.caveats


@pytest.mark.slow
async def test_a_used_fallback_is_visible(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """In the caveats, with the reason."""
    with_fallback = plan(step("a", "select no", fallback=step("f", COUNT)))
    async with desk(conn, dsn, tmp_path, [with_fallback, ANSWER]) as at:
        state = await at.agent.orchestrate("s", question=QUESTION)
    assert state.is_complete
    assert state.results["a"]["row_count"] == 3
    (caveat,) = state.caveats
    assert "fallback was used" in caveat
    assert "42703" in caveat


# Failures.


@pytest.mark.slow
async def test_mistakes_of_a_plan_open_no_breaker(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Seven wrong columns are the model's: the next statement is tried."""
    wrong = plan(*(step(f"s{n}", "select no") for n in range(7)))
    replies = [wrong, *[PLAN, ANSWER] * 2]
    async with desk(conn, dsn, tmp_path, replies, max_retries=0, critic=False) as at:
        assert not (await at.agent.orchestrate("s", question=QUESTION)).is_complete
        assert (await at.agent.orchestrate("s", question=QUESTION)).is_complete
        assert (await at.agent.orchestrate("t", question=QUESTION)).is_complete


async def test_the_breaker_of_a_database_lasts_across_questions(tmp_path: Path) -> None:
    """After five failures none is tried; another database is not affected."""
    nowhere = f"host={tmp_path} connect_timeout=1"
    agent = Supervisor("k", nowhere)
    for _ in range(5):
        with pytest.raises(DatabaseLostError):
            await agent.orchestrate("s", question=QUESTION)
    with pytest.raises(CircuitBreakerOpenError, match="after 5 failures of the database") as caught:
        await agent.orchestrate("s", question=QUESTION)
    assert isinstance(caught.value, ExecutionError)
    with pytest.raises(CircuitBreakerOpenError):
        await agent.index_database_schema()
    with pytest.raises(DatabaseLostError):
        await Supervisor("k", f"{nowhere} dbname=other").orchestrate("s", question=QUESTION)


@pytest.mark.slow
async def test_the_breaker_of_a_model_lasts_across_questions(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Three calls for each question: the second question opens it."""
    async with desk(conn, dsn, tmp_path, [Fault(drop=True)] * 6) as at:
        with pytest.raises(ModelUnavailableError):
            await at.agent.orchestrate("a", question=QUESTION)
        with pytest.raises(CircuitBreakerOpenError):
            await at.agent.orchestrate("b", question=QUESTION)


@pytest.mark.slow
async def test_an_unreachable_provider_is_no_open_breaker(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Until five calls failed in a row; then a question fails at once."""
    async with desk(conn, dsn, tmp_path, []) as at:
        nowhere = replace(spec(at.on.provider), base_url="http://127.0.0.1:1/v1")
        agent = Supervisor("k", dsn, model=nowhere, settings=AskSettings(role=at.on.role))
        with pytest.raises(ModelUnavailableError):
            await agent.orchestrate("a", question=QUESTION)
        with pytest.raises(CircuitBreakerOpenError):
            await agent.orchestrate("b", question=QUESTION)
        async with asyncio.timeout(10):  # it would wait for longer between its tries
            with pytest.raises(CircuitBreakerOpenError):
                await agent.orchestrate("c", question=QUESTION)


@pytest.mark.slow
async def test_a_question_that_the_provider_never_answers_blocks_no_session(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The next question is answered, and the other one is not tried again."""
    replies = [*[Fault(status=500)] * 4, PLAN, ANSWER]
    async with desk(conn, dsn, tmp_path, replies) as at:
        with pytest.raises(ModelUnavailableError):
            await at.agent.orchestrate("s", question="The poisonous one.")
        assert (await at.agent.orchestrate("s", question=QUESTION)).is_complete
        states = "select string_agg(state::text, ',' order by id) from agent.run"
        assert await value(conn, states) == "cancelled,succeeded"


@pytest.mark.slow
async def test_a_lock_costs_no_plan(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """The same statement waits again, and is answered by the same plan."""
    async with desk(conn, dsn, tmp_path, [PLAN, ANSWER]) as at:
        await at.agent.index_database_schema()
        other = await AsyncConnection.connect(dsn)
        await other.execute("lock table customer in access exclusive mode")
        asked = asyncio.create_task(at.agent.orchestrate("s", question=QUESTION))
        await asyncio.sleep(3)  # longer than the guard waits for a lock
        assert not asked.done()
        await other.close()
        assert (await asked).is_complete
        assert len(at.on.provider.received) == 2


# Connections.


@pytest.mark.slow
async def test_one_question_after_another_takes_few_connections(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """One that reads, and those that write the steps."""
    seen: list[int] = []
    count = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name in ('walagent analyst', 'walagent ask')"
    )

    async def look() -> None:
        while True:
            seen.append(await value(conn, count))
            await asyncio.sleep(0.005)

    async with desk(conn, dsn, tmp_path, [PLAN, ANSWER]) as at:
        looking = asyncio.create_task(look())
        await at.agent.orchestrate("s", question=QUESTION)
        looking.cancel()
        assert max(seen) <= 3


@pytest.mark.slow
async def test_twenty_five_questions_at_once_are_answered(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """They share the connections of one client; nothing is left open."""

    def reply(request: object) -> Answer:
        return ANSWER if '"plan"' not in str(request) and "name='answer'" in str(request) else PLAN

    async with desk(conn, dsn, tmp_path, [reply] * 50) as at:
        states = await asyncio.gather(
            *(at.agent.orchestrate(f"s{n}", question=QUESTION) for n in range(25))
        )
        assert [state.is_complete for state in states] == [True] * 25
        left = (
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name in ('walagent analyst', 'walagent ask')"
        )
        deadline = asyncio.get_running_loop().time() + 10
        while await value(conn, left):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)


# Setting up.


@pytest.mark.slow
async def test_a_database_is_set_up_from_python(server: str) -> None:
    """Schema, role and index; what is missing are warnings, and twice is as good as once."""
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(SHOP.encode())
        role = f"analyst_{conn.info.dbname}"
        agent = Supervisor("k", dsn, settings=AskSettings(role=role))
        try:
            found = await agent.setup_database()
            assert (found["status"], found["role"], found["tables"]) == ("ready", role, 1)
            assert found["migrations"] == ["schema"]
            assert found["warnings"] == []
            again = await agent.setup_database()
            assert again == {**found, "migrations": []}
            assert await agent.index_database_schema() == 1
        finally:
            conn.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(role)))
