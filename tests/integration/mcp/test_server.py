"""`walagent serve mcp` as the SDK's own client sees it, on stdio and over HTTP."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.types import CallToolResult, TextContent, TextResourceContents
from psycopg import AsyncConnection

from tests.helpers.database import run_all, value
from tests.integration.cli.test_ask import (
    ANSWER,
    COUNT,
    PLAN,
    QUESTION,
    WITH_FALLBACK,
    Shell,
    shell,
)
from tests.integration.cli.user import SOURCE
from tests.integration.runs.test_approval import asked
from walagent.config import AskSettings
from walagent.config.dsn import Places
from walagent.mcp.tools import McpTools
from walagent.message import Json

PROGRAM = "p-0123456789abcdef"
PERSON = "h-0123456789abcdef"
META = "walagent/person-token"
EVERYBODY = {"ask", "query", "describe_schema", "runs"}
DECISIONS = {"approve", "reject"}


@asynccontextmanager
async def on_stdio(on: Shell, **variables: str) -> AsyncGenerator[Client]:
    """A client that has started the server as its child."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "walagent", "mcp", "--model", "m"],
        env={**on.user.environment, **variables},
        cwd=on.user.folder,
    )
    async with Client(server, read_timeout_seconds=30) as client:
        yield client


@asynccontextmanager
async def over_http(url: str, token: str, mode: str = "auto") -> AsyncGenerator[Client]:
    """A client that shows a token; "legacy": of the protocol before 2026, with sessions."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def names(client: Client) -> set[str]:
    """The tools that a client is shown."""
    return {tool.name for tool in (await client.list_tools()).tools}


def said(result: CallToolResult) -> str:
    """What a call answered, in words."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def gives(client: Client, tool: str, arguments: Mapping[str, Json] | None = None) -> Any:  # noqa: ANN401 - JSON
    """Call a tool that works, and give what it returned."""
    result = await client.call_tool(tool, dict(arguments or {}))
    assert not result.is_error, said(result)
    assert result.structured_content is not None
    return result.structured_content


async def is_refused(
    client: Client, tool: str, arguments: Mapping[str, Json], token: str | None = None
) -> str:
    """Call a tool that refuses, and give why."""
    shown: Any = token and {META: token}
    result = await client.call_tool(tool, dict(arguments), meta=shown)
    assert result.is_error, said(result)
    return said(result)


async def test_programs_ask_query_and_look_around(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """One child process, as an editor starts it."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on, on_stdio(on) as client:
        assert await names(client) == EVERYBODY
        found = await gives(client, "ask", {"question": QUESTION})
        assert (found["status"], found["answer"]) == ("answered", "Twenty in each country.")
        assert found["sql"] == [COUNT]
        assert found["assumptions"] == ["everybody counts"]
        assert found["rows"] == "country\tn\nCH\t20\nDE\t20\nFR\t20"
        assert await gives(client, "query", {"sql": "select 1 as a, null as b"}) == {
            "columns": ["a", "b"],
            "rows": [["1", None]],
            "cut": [],
        }
        schema = await gives(client, "describe_schema", {"words": "countries of customers"})
        assert "public.customer" in schema["result"]
        (run,) = (await gives(client, "runs"))["result"]
        assert (run["id"], run["reason"], run["state"]) == (found["run"], "question", "succeeded")
        assert QUESTION not in json.dumps(run)
        only = await gives(client, "runs", {"run": run["id"], "state": "succeeded"})
        assert only["result"] == [run]
        assert "run 99" in await is_refused(client, "runs", {"run": 99})


@pytest.mark.slow
async def test_an_answer_says_that_a_fallback_was_used(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Among its caveats, with the reason."""
    replies = [WITH_FALLBACK, ANSWER]
    async with shell(conn, dsn, tmp_path, replies) as on, on_stdio(on) as client:
        (caveat,) = (await gives(client, "ask", {"question": QUESTION}))["caveats"]
        assert "fallback was used" in caveat
        assert "42703" in caveat


@pytest.mark.slow
async def test_a_saved_question_is_read_however_many_there_are(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """By its number alone; a number that cannot be one is no saved question."""
    async with shell(conn, dsn, tmp_path, []) as on, on_stdio(on) as client:
        for start, end in ((1, 1), (2, 1100)):  # the first is the oldest
            await run_all(
                conn,
                "insert into agent.verified_query (question, sql)"
                f" select 'number ' || n, 'select 1' from generate_series({start}, {end}) n",
            )
        (content,) = (await client.read_resource("walagent://saved/1")).contents
        assert isinstance(content, TextResourceContents)
        assert content.text == "number 1\n\nselect 1"
        for number in ("0", "-1", "01", "x", "9" * 30, "1%20or%20true"):
            with pytest.raises(MCPError, match="no saved question"):
                await client.read_resource(f"walagent://saved/{number}")


async def test_resources_share_the_breaker_of_the_tools(tmp_path: Path) -> None:
    """After five failures of the database, by whichever of both, neither tries it again."""
    nowhere = f"host={tmp_path} connect_timeout=1"
    tools = McpTools(Places(nowhere, nowhere), AskSettings(), None)
    for _ in range(3):
        with pytest.raises(ToolError):
            await tools.query("select 1")
        with pytest.raises(ResourceError):
            await tools.resources.listed()
    with pytest.raises(ResourceError, match="circuit breaker open"):
        await tools.resources.saved("1")
    with pytest.raises(ToolError, match="circuit breaker open"):
        await tools.query("select 1")


@pytest.mark.slow
async def test_programs_read_tables_and_saved_questions(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """As resources, without a model and without values of rows; prompts say how to go on."""
    async with shell(conn, dsn, tmp_path, []) as on, on_stdio(on) as client:
        await run_all(
            conn,
            """
            create table "odd/na me" (id integer primary key, note text);
            insert into "odd/na me" values (1, 'a secret of this row');
            insert into agent.verified_query (question, sql) values ('How many?', 'select 17');
            """,
        )
        await run_all(conn, f'grant select on "odd/na me" to {on.role}')
        listed = {each.name: str(each.uri) for each in (await client.list_resources()).resources}
        assert listed["public.customer"] == "walagent://table/public.customer"
        for name, says in [
            ("public.customer", "country text"),
            ("public.odd/na me", "note text"),
            ("saved question 1", "How many?\n\nselect 17"),
        ]:
            (content,) = (await client.read_resource(listed[name])).contents
            assert isinstance(content, TextResourceContents)
            assert says in content.text
            assert "secret" not in content.text
        templates = (await client.list_resource_templates()).resource_templates
        assert {each.uri_template for each in templates} == {
            "walagent://table/{name}", "walagent://saved/{number}"
        }  # fmt: skip
        for missing in ("walagent://table/public.nothing", "walagent://saved/99"):
            with pytest.raises(MCPError, match="no "):
                await client.read_resource(missing)
        prompts = {each.name for each in (await client.list_prompts()).prompts}
        assert prompts == {"answer_with_sql", "describe_a_table"}
        given = await client.get_prompt("answer_with_sql", {"question": "How many?"})
        assert "The question: How many?" in str(given.messages[0].content)


@pytest.mark.slow
async def test_what_may_not_run_is_an_error_with_its_reason(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The model reads it; nothing was done, and the server goes on."""
    async with shell(conn, dsn, tmp_path, []) as on, on_stdio(on) as client:
        for sql, why in [
            ("delete from customer", "SELECT"),
            ("select pg_sleep(1)", "pg_sleep"),
            ("select agent.approve(1)", "permission denied"),
            ("select nonsense", "nonsense"),
        ]:
            assert why in await is_refused(client, "query", {"sql": sql})
        assert "empty" in await is_refused(client, "ask", {"question": " "})
        assert await is_refused(client, "approve", {"approval": 1})
        assert (await gives(client, "query", {"sql": "select 2"}))["rows"] == [["2"]]
        assert await value(conn, "select count(*) from customer") == 60


@pytest.mark.slow
async def test_results_are_bounded_and_connections_are_not_kept(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A statement does not fill a model's context; a database that was restarted is used again."""
    many = "select repeat('x', 1000) from generate_series(1, 500)"
    ours = "select pid from pg_stat_activity where datname = current_database()"
    async with shell(conn, dsn, tmp_path, []) as on, on_stdio(on) as client:
        found = await gives(client, "query", {"sql": many})
        assert 10 < len(found["rows"]) < 50
        assert found["cut"] == [f"only the first {len(found['rows'])} rows; they are large"]
        await run_all(
            conn,
            f"select pg_terminate_backend(pid, 5000) from ({ours}) a where pid <> pg_backend_pid()",
        )
        assert (await gives(client, "query", {"sql": "select 2"}))["rows"] == [["2"]]


@pytest.mark.slow
async def test_on_stdio_only_the_client_program_can_show_the_persons_token(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A model writes arguments: with these alone, nothing is decided."""
    async with shell(conn, dsn, tmp_path, []) as on:
        _, approval = await asked(conn)
        given = {"approval": approval}
        async with on_stdio(on, WALAGENT_MCP_PERSON_TOKEN=PERSON) as client:
            assert await names(client) == EVERYBODY | DECISIONS
            for tool in DECISIONS:
                assert "only a person" in await is_refused(client, tool, given)
                assert "only a person" in await is_refused(client, tool, given, token=PERSON[:-1])
                smuggled = {**given, "token": PERSON, "_meta": {META: PERSON}}
                assert "only a person" in await is_refused(client, tool, smuggled)
            assert await value(conn, "select state from agent.approval") == "pending"
            meta: Any = {META: PERSON}
            done = await client.call_tool("approve", given, meta=meta)
            assert (done.is_error, said(done)) == (False, f"approved {approval}")
            assert await value(conn, "select state from agent.approval") == "approved"
            again = await client.call_tool("reject", given, meta=meta)
            assert again.is_error
            assert "already approved" in said(again)


async def test_over_http_only_the_persons_token_decides(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The same server shows each what they may use; strangers see nothing; no token is logged."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        _, approval = await asked(conn)
        given = {"approval": approval, "reason": "too much"}
        tokens = {"WALAGENT_MCP_TOKEN": PROGRAM, "WALAGENT_MCP_PERSON_TOKEN": PERSON}
        with on.user.starts("serve", "mcp", "--http", "0", "--model", "m", **tokens) as server:
            log = await asyncio.to_thread(server.says, "Ctrl-C")
            (url,) = re.findall(r"MCP at (\S+);", log)
            async with over_http(url, PROGRAM) as program:
                assert await names(program) == EVERYBODY
                found = await gives(program, "ask", {"question": QUESTION})
                assert found["answer"] == "Twenty in each country."
                assert "only a person" in await is_refused(program, "reject", given)
                assert "only a person" in await is_refused(program, "reject", given, token=PERSON)
            async with (
                over_http(url, PERSON, "legacy") as person,
                over_http(url, PROGRAM, "legacy") as program,
            ):
                assert await names(person) == EVERYBODY | DECISIONS
                assert await names(program) == EVERYBODY
                assert "only a person" in await is_refused(program, "approve", given)
            assert await value(conn, "select state from agent.approval") == "pending"
            async with over_http(url, PERSON) as person:
                assert await names(person) == EVERYBODY | DECISIONS
                done = await person.call_tool("reject", given)
                assert (done.is_error, said(done)) == (False, f"rejected {approval}")
            assert await value(conn, "select reason from agent.approval") == "too much"
            for stranger in (None, "wrong", PROGRAM[:-1], PROGRAM.upper(), f"{PROGRAM}x", "ü"):
                assert await _status(url, stranger) == 401
            assert await _status(url, PROGRAM, Host="evil.example") == 421
            assert await asyncio.to_thread(server.ends, signal.SIGTERM) == 0
            log = server.log.read_text()
            assert PROGRAM not in log
            assert PERSON not in log
            assert "Traceback" not in log


async def _status(url: str, token: str | None, **headers: str) -> int:
    """What somebody gets who comes with *token*."""
    shown = {} if token is None else {"Authorization": f"Bearer {token}"}
    accepts = {"Accept": "application/json, text/event-stream"}
    every = httpx2.Headers({**accepts, **headers, **shown}, encoding="utf-8")
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient() as http:
        found = await http.post(url, json=hello, headers=every)
        return found.status_code


@pytest.mark.slow
async def test_http_does_not_start_without_a_token_of_its_own(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """It would be open to every program on the machine, or let a model approve its own calls."""
    both = {"WALAGENT_MCP_TOKEN": PERSON, "WALAGENT_MCP_PERSON_TOKEN": PERSON}
    async with shell(conn, dsn, tmp_path, []) as on:
        cases = [
            ({}, 3, "WALAGENT_MCP_TOKEN is not set"),
            ({"WALAGENT_MCP_TOKEN": "short"}, 2, "at least 16"),
            (both, 2, "approve its own calls"),
        ]
        typed = [
            asyncio.to_thread(on.user.types, "mcp", "--http", "0", **variables)
            for variables, _, _ in cases
        ]
        for ended, (_, code, says) in zip(await asyncio.gather(*typed), cases, strict=True):
            assert (ended.code, ended.out) == (code, ""), ended.err
            assert says in ended.err
            assert PERSON not in ended.err


@pytest.mark.slow
async def test_stdout_is_the_protocols_and_nothing_elses(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Even at the most talkative level, and when a call fails; it ends when stdin does."""
    calls = [
        _message(1, "initialize", protocolVersion="2025-06-18", capabilities={},
                 clientInfo={"name": "t", "version": "1"}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        _message(2, "tools/call", name="query", arguments={"sql": "select 'x"}),
    ]  # fmt: skip
    async with shell(conn, dsn, tmp_path, []) as on:
        on.user.writes(f"ask: {{role: {on.role}, connections: 1}}\nlog: {{level: debug}}\n")
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "walagent", "mcp", cwd=tmp_path, env=on.user.environment,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stdin
        assert child.stdout
        child.stdin.write("".join(json.dumps(each) + "\n" for each in calls).encode())
        answers = [json.loads(await asyncio.wait_for(child.stdout.readline(), 30)) for _ in "ab"]
        rest, _ = await asyncio.wait_for(child.communicate(b""), 30)
        assert [answer["id"] for answer in answers] == [1, 2]
        assert answers[1]["result"]["isError"]
        assert (rest, child.returncode) == (b"", 0)


def _message(number: int, method: str, **params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@pytest.mark.slow
async def test_what_is_missing_is_said_at_the_start(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A model, an analyst that cannot write, the SDK itself."""
    async with shell(conn, dsn, tmp_path, []) as on:
        hidden = tmp_path / "hidden" / "mcp"
        hidden.mkdir(parents=True)
        missing = "raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')"
        (hidden / "__init__.py").write_text(missing)
        path = os.pathsep.join([str(hidden.parent), str(SOURCE)])
        ended = await asyncio.to_thread(on.user.types, "mcp", PYTHONPATH=path)
        assert (ended.code, ended.out) == (2, "")
        assert "[mcp]'" in ended.err
        await run_all(conn, f"grant insert on customer to {on.role}")
        ended = await on.types("serve", "mcp")
        assert (ended.code, ended.out) == (3, "")
        assert "can write to public.customer" in ended.err
