"""Runs whose provider answers in its own way: what is written, paused and counted."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, rows, run_all, value
from walagent.message import Json, ModelSpec
from walagent.models import build_model
from walagent.models.limits import ModelLimits
from walagent.models.replies import as_array, as_object
from walagent.runs.worker_models import Models
from walagent.testing.http_server import HttpServer, Incoming, Outgoing

Body = dict[str, Json]
TABLES = """
create table note (
    id int primary key, "Due Date" date, "Straße" text not null default '', doc jsonb, n bigint
);
create table counted (n bigint, why text);
create function count_it(n bigint, why text default 'none given') returns text
    language sql as $$ insert into counted values (n, why) returning 'counted' $$;
"""
USAGE = {"prompt_tokens": 100, "completion_tokens": 20}


def calling(name: str, arguments: str) -> Body:
    """An answer with a call."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return said(None, "tool_calls", tool_calls=[call])


def said(text: str | None, reason: Json = "stop", **message: Json) -> Body:
    """An answer in words."""
    choice = {"message": {"content": text, **message}, "finish_reason": reason}
    return {"choices": [choice], "usage": USAGE}


def is_done(body: Body) -> bool:
    """Whether a tool has answered."""
    return any(as_object(turn).get("role") == "tool" for turn in as_array(body["messages"]))


@asynccontextmanager
async def answering(
    conn: AsyncConnection,
    dsn: str,
    answer: Callable[[Body], tuple[int, Json]],
    model_id: str = "some-model",
) -> AsyncIterator[Daemon]:
    """A daemon whose model is a server that answers as the test says."""

    async def respond(incoming: Incoming) -> Outgoing:
        status, body = answer(as_object(json.loads(incoming.body)))
        return Outgoing(status, json.dumps(body).encode())

    server = HttpServer(respond)
    url = f"http://127.0.0.1:{await server.start()}/v1"
    spec = ModelSpec("fake", "openai", model_id, url, input_price=1, output_price=5)
    models = Models({"fake": spec}, lambda one: build_model(one, environ={}), ModelLimits())
    try:
        async with daemon(conn, dsn, models) as d:
            yield d
    finally:
        await models.aclose()
        await server.stop()


@pytest.mark.parametrize("model_id", ["some-model", "gemini-3-pro"])
async def test_awkward_columns_are_written_by_any_provider(
    conn: AsyncConnection, dsn: str, model_id: str
) -> None:
    """Names with spaces and umlauts, null, documents and whole numbers."""
    given: dict[str, Json] = {}

    def answer(body: Body) -> tuple[int, Json]:
        if is_done(body):
            return 200, said("done")
        schema = body["tools"][0]["function"]["parameters"]["properties"]
        assert schema.keys() == {"Due_Date", "Strasse", "doc", "n"}
        given.update(schema)
        doc: Json = {"a": [1, None]}
        doc = json.dumps(doc) if model_id.startswith("gemini") else doc
        values = {"Due_Date": None, "Strasse": "Allee 1", "doc": doc, "n": 7.0}
        return 200, calling("update_row", json.dumps(values))

    await run_all(conn, DESK + TABLES)
    await attach(conn, 'writes=["Due Date", "Straße", doc, n]', "note")
    async with answering(conn, dsn, answer, model_id) as d:
        await run_all(conn, "insert into note values (1, '2024-01-01')")
        await d.ended()
    written = await rows(conn, 'select "Due Date", "Straße", doc, n from note')
    assert written == [(None, "Allee 1", {"a": [1, None]}, 7)]
    assert given["Strasse"]["type"] == "string"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"n": 7.0}', (7, "none given")),
        ('{"n": 1e3, "why": null}', (1000, "none given")),
        ('{"n": 1, "why": "so"}', (1, "so")),
        (json.dumps('{"n": 2}'), (2, "none given")),
    ],
)
async def test_arguments_mean_what_the_schema_says(
    conn: AsyncConnection, dsn: str, arguments: str, expected: tuple[int, str]
) -> None:
    """Whole numbers are integers, and null is what is left out."""

    def answer(body: Body) -> tuple[int, Json]:
        return 200, said("done") if is_done(body) else calling("count_it", arguments)

    await run_all(conn, DESK + TABLES)
    await attach(conn, "tools=[count_it]")
    async with answering(conn, dsn, answer) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.ended()
    assert await rows(conn, "select n, why from counted") == [expected]


async def test_null_for_a_column_that_cannot_be_null_goes_back_to_the_model(
    conn: AsyncConnection, dsn: str
) -> None:
    """In the words of JSON; nothing is set."""
    told: list[str] = []

    def answer(body: Body) -> tuple[int, Json]:
        told.extend(
            str(turn["content"]) for turn in as_array(body["messages"]) if turn["role"] == "tool"
        )
        return 200, said("done") if is_done(body) else calling("update_row", '{"Strasse": null}')

    await run_all(conn, DESK + TABLES)
    await attach(conn, 'writes=["Straße"]', "note")
    async with answering(conn, dsn, answer) as d:
        await run_all(conn, "insert into note values (1)")
        await d.ended()
    assert "Straße: null is not of type string" in told[0]


async def test_a_bad_key_of_gemini_pauses(conn: AsyncConnection, dsn: str) -> None:
    """It answers 400, as for a malformed request, with an array."""
    error = {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [{"reason": "API_KEY_INVALID"}],
    }
    await run_all(conn, DESK)
    await attach(conn, "")
    async with answering(conn, dsn, lambda _: (400, [{"error": error}])) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.until("select paused from agent.attachment")
    assert "API key not valid" in await value(conn, "select paused_reason from agent.attachment")
    assert await value(conn, "select state from agent.run") == "pending"


async def test_a_reply_that_cannot_be_used_counts_in_budgets(
    conn: AsyncConnection, dsn: str
) -> None:
    """The provider charges for each of them."""
    await run_all(conn, DESK)
    await attach(conn, "max_attempts=2")
    await run_all(
        conn, "insert into agent.budget (name, period, max_tokens) values ('all', 'day', 200000)"
    )
    async with answering(conn, dsn, lambda _: (200, said("half", "abort"))) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.until("select exists (select from agent.run where state = 'waiting_retry')")
        await run_all(conn, "update agent.run set next_attempt_at = agent_internal.now()")
        await d.ended()
    assert await value(conn, "select state from agent.run") == "dead"
    spent = "select spent_tokens, reserved_tokens from agent.budget_overview"
    assert await rows(conn, spent) == [(240, 0)]


@pytest.mark.few(2)
@pytest.mark.parametrize("reason", [None, "", "eos", "end_turn"])
async def test_a_whole_answer_without_a_reason_is_one(
    conn: AsyncConnection, dsn: str, reason: Json
) -> None:
    """It was thrown away five times, and paid for."""
    await run_all(conn, DESK)
    await attach(conn, "")
    async with answering(conn, dsn, lambda _: (200, said("fine", reason))) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.ended()
    assert await rows(conn, "select state, attempt, result from agent.run") == [
        ("succeeded", 1, "fine")
    ]


async def test_reasoning_in_tags_is_no_result(conn: AsyncConnection, dsn: str) -> None:
    """Nor a text of a thread."""
    await run_all(conn, DESK)
    await attach(conn, "")
    text = "<think>secret</think>\nThe answer is 7."
    async with answering(conn, dsn, lambda _: (200, said(text))) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.ended()
    assert await value(conn, "select result from agent.run") == "The answer is 7."


async def test_a_call_that_is_written_as_text_is_no_success(
    conn: AsyncConnection, dsn: str
) -> None:
    """It fails with the reason, and nothing is done."""
    text = '<tool_call>\n{"name": "refund_user", "arguments": {"ticket_id": 1}}\n</tool_call>'
    await run_all(conn, DESK)
    await attach(conn, "tools=[refund_user]")
    async with answering(conn, dsn, lambda _: (200, said(text))) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.ended()
    state, reason = (await rows(conn, "select state, error ->> 'reason' from agent.run"))[0]
    assert state == "failed"
    assert 'its call of "refund_user" as text' in reason
    assert await value(conn, "select count(*) from refund") == 0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("environ", "proxy", "words"),
    [
        ({}, "socks5://127.0.0.1:9", "ALL_PROXY names a SOCKS proxy"),
        ({"OPENAI_API_KEY": "sk-schlüssel"}, "", "a letter that is not ASCII"),
        ({"OPENAI_API_KEY": "sk-a\nsk-b"}, "", "a space or line break"),
        ({"OPENAI_BASE_URL": "127.0.0.1:8000/v1"}, "", "OPENAI_BASE_URL is not a base URL"),
    ],
    ids=["socks", "not ascii", "two lines", "no scheme"],
)
async def test_what_is_configured_wrongly_pauses(
    conn: AsyncConnection,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    environ: dict[str, str],
    proxy: str,
    words: str,
) -> None:
    """As a key that is missing does: no run is lost, and no attempt is used."""
    if proxy:
        monkeypatch.setenv("ALL_PROXY", proxy)
    given = {"OPENAI_API_KEY": "sk-a", **environ}
    spec = ModelSpec("fake", "openai", "gpt-x")
    models = Models({"fake": spec}, lambda one: build_model(one, environ=given), ModelLimits())
    await run_all(conn, DESK)
    await attach(conn, "")
    async with daemon(conn, dsn, models) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('one')")
        await d.until("select paused from agent.attachment")
    await models.aclose()
    assert words in await value(conn, "select paused_reason from agent.attachment")
    assert await rows(conn, "select state, attempt from agent.run") == [("pending", 0)]
