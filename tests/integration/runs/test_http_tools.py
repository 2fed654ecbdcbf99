"""Tools over HTTP, declared in SQL or in a file, and called by a daemon."""

import json
from collections.abc import Mapping

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, column, message_of, refused, rows, run_all, value
from tests.helpers.web import Web, reply, web
from walagent.apply.apply import apply
from walagent.config import Config
from walagent.config.environment import Environment
from walagent.domain.attachment import Attachment
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.models.script import Answer, call
from walagent.telemetry import metrics
from walagent.workers.host_rules import http_tools

SECRETS = {"HOOK_TOKEN": "tk-secret-1"}
KINDS = "select kind from agent.step order by seq"
DONE: tuple[Answer, ...] = (call("alert", text="on fire"), "Done.")


def config(port: int, **alert: Json) -> Config:
    """A file with one tool, and a host for tools of SQL."""
    entry = {
        "url": f"http://127.0.0.1:{port}/alerts/{{ticket_id}}",
        "description": "Alert the team on call.",
        "headers": {"Authorization": "Bearer {secret:HOOK_TOKEN}"},
        "body": {"text": "{text}", "level": "{level}"},
        "arguments": {
            "ticket_id": {"type": "integer"},
            "level": {"type": "string", "enum": ["low", "high"], "default": "low"},
        },
        "networks": "127.0.0.0/8",
        **alert,
    }
    rules = {f"localhost:{port}": {"networks": ["127.0.0.0/8", "::1/128"]}}
    return Config.model_validate({"http_tools": {"alert": entry}, "tools": {"http_hosts": rules}})


async def worked(
    conn: AsyncConnection, dsn: str, made: Config, replies: tuple[Answer, ...] = DONE
) -> tuple[str, str]:
    """Apply the file, attach, insert a ticket; return the state and the error of its run."""
    await apply(conn, made)
    await attach(conn, "tools=[alert], bind=[ticket_id=id]")
    allowed = http_tools(made, Environment(SECRETS))
    async with daemon(conn, dsn, list(replies), http=allowed) as d:
        await run_all(conn, "insert into support_tickets (issue) values ('smoke')")
        await d.until(
            "select exists (select from agent.run where state::text in"
            " ('succeeded', 'failed', 'dead', 'needs_review', 'waiting_approval'))"
        )
    found = await rows(conn, "select state::text, coalesce(error ->> 'reason', '') from agent.run")
    return found[0]


async def test_a_tool_of_the_file_is_called(conn: AsyncConnection, dsn: str) -> None:
    """With a bound argument, the secret and the key of the call; intent before, result after."""
    await run_all(conn, DESK)
    async with web() as server:
        assert await worked(conn, dsn, config(server.port)) == ("succeeded", "")
        (got,) = server.sent
    assert got.line == "POST /alerts/1 HTTP/1.1"
    assert json.loads(got.body) == {"text": "on fire", "level": "low"}
    assert got.headers["authorization"] == "Bearer tk-secret-1"
    intent = "select content ->> 'idempotency_key' from agent.step where kind = 'intent'"
    assert got.headers["idempotency-key"] == await value(conn, intent)
    assert await column(conn, KINDS) == ["reply", "intent", "result", "reply"]
    assert "HTTP 200" in await value(
        conn, "select content ->> 'content' from agent.step where kind = 'result'"
    )


async def test_no_secret_is_in_the_database(conn: AsyncConnection, dsn: str) -> None:
    """Nor in a result: the server repeats what it was sent."""
    await run_all(conn, DESK)
    async with web() as server:
        server.answers["/alerts/1"] = b"echo"
        assert (await worked(conn, dsn, config(server.port)))[0] == "succeeded"
        assert "tk-secret-1" in server.sent[0].headers["authorization"]
    for table in ("agent.tool", "agent.step", "agent.run", "agent.attachment_version"):
        text = await value(conn, f"select coalesce(string_agg(t::text, ''), '') from {table} t")
        assert "tk-secret-1" not in text, table


async def unknown_first(conn: AsyncConnection, dsn: str, server: Web, effect: str) -> str:
    """The server fails after it was called; return the state of the run."""
    server.answers["/alerts/1"] = reply(b"", "502 Bad Gateway")
    await run_all(conn, DESK)
    state, _ = await worked(conn, dsn, config(server.port, effect=effect))
    return state


def counted(outcome: str) -> float:
    """How many calls of the tool had this outcome, by the metrics of this process."""
    return sum(
        sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "walagent_tool_calls_total"
        and (sample.labels["tool"], sample.labels["outcome"]) == ("alert", outcome)
    )


async def test_an_unsafe_call_is_made_once(conn: AsyncConnection, dsn: str) -> None:
    """Its outcome is unknown, in the metrics, too: a person resolves it."""
    before = counted("ok"), counted("unknown")
    async with web() as server:
        assert await unknown_first(conn, dsn, server, "unsafe") == "needs_review"
        assert len(server.sent) == 1
    assert await column(conn, KINDS) == ["reply", "intent"]
    assert (counted("ok"), counted("unknown")) == (before[0], before[1] + 1)


@pytest.mark.slow
async def test_an_idempotent_call_is_repeated_with_its_key(conn: AsyncConnection, dsn: str) -> None:
    """Once, after a pause; then the model reads that it may have acted."""
    async with web() as server:
        assert await unknown_first(conn, dsn, server, "idempotent") == "succeeded"
        first, second = server.sent
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert "may have acted" in await value(
        conn, "select content ->> 'content' from agent.step where kind = 'result'"
    )
    took = "select extract(epoch from max(recorded_at) filter (where kind = 'result')"
    took += " - max(recorded_at) filter (where kind = 'intent'))::float from agent.step"
    assert await value(conn, took) >= 1


async def test_a_refused_call_goes_back_to_the_model(conn: AsyncConnection, dsn: str) -> None:
    """It did not act."""
    await run_all(conn, DESK)
    async with web() as server:
        server.answers["/alerts/1"] = reply(b"unknown level", "422 Unprocessable Content")
        assert (await worked(conn, dsn, config(server.port)))[0] == "succeeded"
    (result,) = await column(conn, "select content from agent.step where kind = 'result'")
    assert result["is_error"] is True
    assert "HTTP 422\nunknown level" in result["content"]


async def test_a_call_can_wait_for_a_person(conn: AsyncConnection, dsn: str) -> None:
    """Nothing is sent before."""
    await run_all(conn, DESK)
    async with web() as server:
        made = config(server.port, approval=True)
        assert (await worked(conn, dsn, made))[0] == "waiting_approval"
        assert server.connections == 0


# Declared in SQL.

INSERT = "insert into agent.tool (name, kind, target, http) values (%s, 'http', %s, %s)"


async def test_a_tool_of_sql_needs_a_host_of_the_file(conn: AsyncConnection, dsn: str) -> None:
    """A row does not choose where the daemon connects to."""
    await run_all(conn, DESK)
    async with web() as server:
        made = config(server.port)
        for host in ("127.0.0.2", "localhost"):
            await conn.execute(
                INSERT,
                [f"ping_{host[0]}", f"http://{host}:{server.port}/ping", Jsonb({"body": "{text}"})],
            )
        await attach(conn, "tools=[ping_1, ping_l]")
        calls = [call("ping_1", text="a"), call("ping_l", text="b"), "Done."]
        async with daemon(conn, dsn, calls, http=http_tools(made, Environment({}))) as d:
            await run_all(conn, "insert into support_tickets (issue) values ('smoke')")
            await d.ended()
        assert [sent.line for sent in server.sent] == ["POST /ping HTTP/1.1"]
    results = await column(
        conn, "select content ->> 'content' from agent.step where kind = 'result' order by seq"
    )
    assert 'host "127.0.0.2:' in results[0]
    assert "not allowed on this worker" in results[0]
    assert "HTTP 200" in results[1]


async def test_the_schema_follows_from_the_template(conn: AsyncConnection) -> None:
    """Each placeholder is a string, except what walagent fills in."""
    await run_all(conn, DESK)
    http = {
        "headers": {"X-Run": "{run_id}", "X-Key": "{idempotency_key}{secret:S}", "X": "{{no}}"},
        "body": {"a": ["{first}", {"b": "x {second} y"}], "{key}": 1},
        "method": "GET",
    }
    await conn.execute(INSERT, ["ping", "https://api.example/{id}?q={q}", Jsonb(http)])
    await attach(conn, "tools=[ping], bind=[id=id]")
    (tool,) = Attachment.from_json(
        await value(conn, "select definition from agent.attachment")
    ).agent.tools
    assert tool.input_schema == {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"type": "string"} for name in ("first", "q", "second")},
        "required": ["first", "q", "second"],
    }
    assert (tool.kind, tool.effect, tool.bind) == ("http", "idempotent", {"id": "id"})
    assert tool.http["headers"] == http["headers"]


@pytest.mark.parametrize(
    ("url", "http", "said"),
    [
        ("https://{host}/x", {}, "invalid URL"),
        ("https://api.example{path}", {}, "invalid URL"),
        ("https://user:pass@api.example/", {}, "invalid URL"),
        ("https://api.example\\@evil.example/", {}, "invalid URL"),
        ("https://api.example/a b", {}, "invalid URL"),
        ("https://api.example/#x", {}, "invalid URL"),
        ("file:///etc/passwd", {}, "invalid URL"),
        ("https://api.example/", {"metod": "GET"}, 'unknown key "metod"'),
        ("https://api.example/", {"method": "TRACE"}, "invalid method"),
        ("https://api.example/", {"method": None}, "invalid method"),
        ("https://api.example/", {"headers": {"Host": "evil"}}, "headers must be"),
        ("https://api.example/", {"headers": {"X Y": "z"}}, "headers must be"),
        ("https://api.example/", {"headers": {"X": "a\r\nY: z"}}, "headers must be"),
        ("https://api.example/", {"headers": {"X": 1}}, "headers must be"),
        ("https://api.example/", {"headers": ["X"]}, "headers must be"),
        ("https://api.example/", {"idempotency_header": "a b"}, "idempotency_header"),
        ("https://api.example/", {"idempotency_header": "host"}, "idempotency_header"),
        ("https://api.example/", {"idempotency_header": "Content-Length"}, "idempotency_header"),
        ("https://api.example/", {"max_bytes": 10**9}, "max_bytes"),
        ("https://api.example/", {"max_bytes": "many"}, "max_bytes"),
    ],
)
async def test_a_tool_that_could_not_be_called_is_refused(
    conn: AsyncConnection, url: str, http: Mapping[str, Json], said: str
) -> None:
    """When it is declared, in SQL as in a file."""
    error = await refused(conn, INSERT, "bad", url, Jsonb(http), state="WA011")
    assert said in message_of(error)


async def test_a_placeholder_that_no_argument_fills_is_refused(conn: AsyncConnection) -> None:
    """A schema of one's own names all of them."""
    error = await refused(
        conn,
        "insert into agent.tool (name, kind, target, http, input_schema) values"
        " ('bad', 'http', 'https://api.example/{x}', '{}', '{\"type\": \"object\"}')",
        state="WA011",
    )
    assert 'placeholder "x"' in message_of(error)


# Declared in the file.


async def test_a_changed_tool_makes_new_versions(conn: AsyncConnection) -> None:
    """And an unchanged one none."""
    await run_all(conn, DESK)
    agents = {"a": {"model": "fake", "tools": ["alert"], "attach": [{"table": "support_tickets"}]}}
    versions = "select version from agent.attachment"
    for about, version in (("Alert.", 1), ("Alert.", 1), ("Alert the team.", 2)):
        made = config(1, description=about).model_copy(
            update={"agents": Config.model_validate({"agents": agents}).agents}
        )
        await apply(conn, made)
        assert await value(conn, versions) == version


async def test_a_name_of_another_tool_is_refused(conn: AsyncConnection) -> None:
    """No tool is replaced by a request."""
    made = Config.model_validate(
        {"http_tools": {"query": {"url": "https://api.example/", "description": "x"}}}
    )
    with pytest.raises(ConfigError, match='tool "query" already exists'):
        await apply(conn, made)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"url": "https://{host}/"}, "url"),
        ({"url": "https://a.example:70000/"}, "[Pp]ort"),
        ({"url": "https://[::1::2]/"}, "address"),
        ({"url": "https://a.example/", "arguments": {"x": {}}}, "argument x is not in"),
        ({"url": "https://a.example/", "networks": "10.0.0.1/8"}, "host bits"),
    ],
)
def test_a_wrong_entry_is_an_error_of_the_file(entry: Mapping[str, Json], said: str) -> None:
    """Before anything is connected to."""
    with pytest.raises(ValueError, match=said):
        Config.model_validate({"http_tools": {"x": {"description": "x", **entry}}})
