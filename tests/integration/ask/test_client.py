"""The library: the client, and the interface of PG Agent's example."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from psycopg import AsyncConnection

import walagent
from tests.helpers.database import run_all, value
from tests.integration.cli.test_ask import ANSWER, COUNT, KEY, PLAN, QUESTION, shell
from tests.integration.cli.user import PATIENCE
from walagent import AsyncClient, Client
from walagent.config import AskSettings
from walagent.errors import (
    ConfigError,
    ModelUnauthorizedError,
    PreconditionError,
    StatementRefusedError,
)
from walagent.message import ModelSpec
from walagent.testing import FakeProvider, Fault


def spec(fake: FakeProvider) -> ModelSpec:
    """A model that leads to the provider; no registry knows it."""
    return replace(fake.spec("openai"), credential=KEY)


@pytest.mark.slow
async def test_a_client_answers_and_its_conversation_remembers(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Rows as values of Python's own types; a statement of one's own passes the guard, too."""
    async with (
        shell(conn, dsn, tmp_path, [PLAN, ANSWER, PLAN, ANSWER]) as on,
        AsyncClient(
            dsn,
            model=spec(on.provider),
            api_key=on.provider.key,
            settings=AskSettings(role=on.role),
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
        assert (await client.index()).tables > 5
        assert await value(conn, "select count(*) from agent.question") == 2


EXAMPLE = Path(__file__).parent.parent / "examples" / "supervisor.py"


@pytest.mark.slow
async def test_the_example_of_pg_agent_runs(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Only its import line is another one; it closes nothing, and nothing is left open.

    The database that it names is the one that is used, whatever the environment says.
    """
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER], role="walagent_analyst") as on:
        await run_all(conn, "update agent.model set name = 'gemini', credential = 'ELSEWHERE'")
        environment = on.user.environment | {
            "EXAMPLE_KEY": on.provider.key,
            "EXAMPLE_DATABASE": dsn,
            "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere",
            "PGHOST": "nowhere.invalid",
            "PGDATABASE": "nowhere",
            "PGUSER": "nobody",
        }
        ended = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-W", "error", str(EXAMPLE)],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
        shown = [{"country": country, "n": 20} for country in ("CH", "DE", "FR")]
        found = {"results": shown, "row_count": 3}
        assert ended.stdout.splitlines() == ["Count them.", f"[a] count: {found}"]
        assert await value(conn, "select session_id from agent.question") == "session-123"
        assert await value(conn, "select (options -> 'parallel')::text from agent.question") == (
            "false"
        )


async def test_values_come_as_they_are(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Whatever the database makes of dates and bytes for those who look at it."""
    name = conn.info.dbname
    for setting in ("datestyle = german", "bytea_output = escape", "intervalstyle = iso_8601"):
        await run_all(conn, f"alter database {name} set {setting}")
    query = """
        select 1.10::numeric as amount, '2024-03-31 02:30+02'::timestamptz as at, null as nothing,
               date '2024-01-02' as day, '\\x00ff'::bytea as raw, 0.1::float8 + 0.2 as sum,
               interval '90 min' as took, uuid '6f1b2a0e-0000-4000-8000-000000000001' as id
    """
    async with (
        shell(conn, dsn, tmp_path, []) as on,
        AsyncClient(
            dsn,
            model=spec(on.provider),
            api_key=on.provider.key,
            settings=AskSettings(role=on.role),
        ) as client,
    ):
        rows = await client.query(query)
        assert rows.dicts() == [
            {
                "amount": Decimal("1.10"),
                "at": datetime(2024, 3, 31, 0, 30, tzinfo=UTC),
                "nothing": None,
                "day": date(2024, 1, 2),
                "raw": b"\x00\xff",
                "sum": 0.1 + 0.2,
                "took": timedelta(minutes=90),
                "id": UUID("6f1b2a0e-0000-4000-8000-000000000001"),
            }
        ]
        assert rows.to_polars()["amount"].to_list() == [Decimal("1.10")]
        assert rows.to_pandas()["at"][0] == datetime(2024, 3, 31, 0, 30, tzinfo=UTC)


@pytest.mark.slow
async def test_a_client_works_without_an_event_loop(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """In a script, or a notebook cell."""
    replies = [PLAN, PLAN, ANSWER, PLAN, ANSWER]
    async with shell(conn, dsn, tmp_path, replies) as on:

        def script() -> list[str]:
            with Client(
                dsn,
                model=spec(on.provider),
                api_key=on.provider.key,
                settings=AskSettings(role=on.role),
            ) as client:
                assert list(client.query("select 1")) == [(1,)]
                assert client.index().tables > 5
                first = client.ask(QUESTION, session="s", candidates=2)
                frame = first.to_pandas()
                assert list(frame["country"]) == ["CH", "DE", "FR"]
                assert first.to_polars()["n"].to_list() == [20, 20, 20]
                assert client.chat("s").ask("And now?").status == "answered"
                return list(first.sql)

        assert await asyncio.to_thread(script) == [COUNT]
        assert QUESTION in str(on.provider.received[-1].body)


async def test_options_that_make_no_sense_are_named(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Before anybody is asked."""
    async with (
        shell(conn, dsn, tmp_path, []) as on,
        AsyncClient(
            dsn,
            model=spec(on.provider),
            api_key=on.provider.key,
            settings=AskSettings(role=on.role),
        ) as client,
    ):
        for wrong in (0, 6):
            with pytest.raises(ConfigError, match=f"candidates must be 1 to 5, not {wrong}"):
                await client.ask(QUESTION, candidates=wrong)
        with pytest.raises(ConfigError, match="retries must be 0 to 10, not -1"):
            await client.ask(QUESTION, retries=-1)
        assert on.provider.received == []


async def test_a_question_that_was_cut_off_is_answered_once(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Who asks it again gets the answer of the one that was begun."""
    async with (
        shell(conn, dsn, tmp_path, [PLAN, Fault(status=401), ANSWER]) as on,
        AsyncClient(
            dsn,
            model=spec(on.provider),
            api_key=on.provider.key,
            settings=AskSettings(role=on.role),
        ) as client,
    ):
        with pytest.raises(ModelUnauthorizedError):
            await client.ask(QUESTION, session="s")
        assert (await client.ask(QUESTION, session="s")).text == "Twenty in each country."
        assert await value(conn, "select count(*) from agent.question") == 1


def test_a_client_without_a_database_says_so() -> None:
    """It does not look for another one in the environment."""
    with pytest.raises(ConfigError, match="no database given"), Client("") as client:
        client.index()


async def test_a_client_inside_an_event_loop_says_what_to_use() -> None:
    """As in a notebook."""
    with pytest.raises(ConfigError, match="event loop") as caught, Client("x"):
        pass
    assert "AsyncClient" in caught.value.hint


def test_the_package_has_no_other_attributes() -> None:
    """And says so as every module does."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = walagent.nonsense  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow
async def test_a_statement_of_ones_own_needs_no_model(
    conn: AsyncConnection, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question says what is missing, and is not stored; in the chat, too."""
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    async with shell(conn, dsn, tmp_path, []) as on:
        await run_all(conn, "update agent.model set name = 'x', enabled = false")
        async with AsyncClient(dsn, settings=AskSettings(role=on.role)) as client:
            assert list(await client.query("select count(*) from customer")) == [(60,)]
            with pytest.raises(PreconditionError, match="no registered model"):
                await client.ask(QUESTION)
        given = "select count(*) from customer\nHow many?\nexit\n"
        ended = await asyncio.to_thread(on.user.types, "chat", stdin=given)
        assert "60" in ended.out, ended
        assert "no registered model" in ended.err, ended
        assert await value(conn, "select count(*) from agent.question") == 0
