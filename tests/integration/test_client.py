"""The library: the client, and the interface of PG Agent's example."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import AsyncConnection

import walagent
from tests.helpers.database import value
from tests.integration.test_cli_ask import ANSWER, COUNT, KEY, PLAN, QUESTION, shell
from walagent import AsyncClient, Client, CoordinationPattern, Supervisor
from walagent.config import Ask
from walagent.errors import ConfigError, StatementRefusedError
from walagent.message import ModelSpec
from walagent.testing import FakeProvider


def spec(fake: FakeProvider) -> ModelSpec:
    """A model that leads to the provider; no registry knows it."""
    return replace(fake.spec("openai"), credential=KEY)


async def test_a_client_answers_and_its_conversation_remembers(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Rows as values of Python's own types; a statement of one's own passes the guard, too."""
    async with (
        shell(conn, dsn, tmp_path, [PLAN, ANSWER, PLAN, ANSWER]) as on,
        AsyncClient(
            dsn, model=spec(on.provider), api_key=on.provider.key, settings=Ask(role=on.role)
        ) as client,
    ):
        talk = await client.chat("tuesday")
        first = await talk.ask(QUESTION)
        assert first.text == "Twenty in each country."
        assert list(first.results["a"].rows) == [("CH", 20), ("DE", 20), ("FR", 20)]
        await talk.ask("And now?")
        assert QUESTION in str(on.provider.received[2].body)
        assert list(await client.query("select count(*) from customer")) == [(60,)]
        with pytest.raises(StatementRefusedError):
            await client.query("delete from customer")
        assert await client.index() > 5
        assert await value(conn, "select count(*) from agent.question") == 2


async def test_the_example_of_pg_agent_runs(
    conn: AsyncConnection, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its arguments and attributes; the database that it names is the one that is used."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        agent = Supervisor(
            api_key=on.provider.key,
            db_url=dsn,
            redis_url="redis://nowhere",
            model=spec(on.provider),
            settings=Ask(role=on.role),
        )
        await agent.index_database_schema()
        state = await agent.orchestrate(
            session_id="session-123",
            pattern=CoordinationPattern.SEQUENTIAL,
            question="What is the total revenue per store?",
        )
        print(state.plan.reasoning)  # noqa: T201 - as the example does
        for step in state.plan.steps:
            print(f"[{step.id}] {step.description}: {state.results.get(step.id)}")  # noqa: T201
        await agent.aclose()
    said = capsys.readouterr().out
    assert "Count them." in said
    assert "[a] count: [{'country': 'CH', 'n': 20}," in said
    assert state.is_complete


async def test_a_client_works_without_an_event_loop(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """In a script, or a notebook cell."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:

        def script() -> list[str]:
            with Client(
                dsn, model=spec(on.provider), api_key=on.provider.key, settings=Ask(role=on.role)
            ) as client:
                assert list(client.query("select 1")) == [(1,)]
                assert client.index() > 5
                return list(client.ask(QUESTION, session="s").sql)

        assert await asyncio.to_thread(script) == [COUNT]


def test_a_client_without_a_database_says_so() -> None:
    """It does not look for another one in the environment."""
    with pytest.raises(ConfigError, match="no database is named"), Client("") as client:
        client.index()


async def test_a_client_inside_an_event_loop_says_what_to_use() -> None:
    """As in a notebook."""
    with pytest.raises(ConfigError, match="an event loop runs here") as caught, Client("x"):
        pass
    assert "AsyncClient" in caught.value.hint


def test_the_package_has_no_other_attributes() -> None:
    """And says so as every module does."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = walagent.nonsense  # pyright: ignore[reportAttributeAccessIssue]
