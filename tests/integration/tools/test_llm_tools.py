"""Tools that are models: asked with the arguments, paid by the run."""

from dataclasses import replace

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, refused, rows, run_all, value
from walagent.base import faults
from walagent.errors import ModelRejectedError
from walagent.message import Reply, Request, Text
from walagent.models.script import call
from walagent.models.scripted.scripted_model import SPEC, ScriptedModel

SETUP = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('small', 'scripted', 'small', 1, 2);
insert into agent.tool (name, kind, target, description, effect, llm, input_schema, output_schema)
values ('translate', 'llm', 'small', 'Translate a text.', 'idempotent',
        '{"system": "Translate.", "max_tokens": 100}',
        '{"type": "object", "required": ["text", "language"], "additionalProperties": false,
          "properties": {"text": {"type": "string"}, "language": {"type": "string"}}}', null);
"""
TICKET = "insert into support_tickets (issue) values ('Bonjour')"
STEPS = (
    "select kind, content ->> 'content', content ->> 'registered', input_tokens is not null"
    " from agent.step order by seq"
)


async def test_a_tool_asks_a_model(conn: AsyncConnection, dsn: str) -> None:
    """It sees the arguments alone; its tokens and cost are those of the run."""
    await run_all(conn, DESK + SETUP)
    await attach(conn, "tools=[translate]")
    small = ScriptedModel(["Good day"])
    own = ScriptedModel([call("translate", text="Bonjour", language="en"), "Done."])
    async with daemon(conn, dsn, {"fake": own, "small": small}) as d:
        await run_all(conn, TICKET)
        await d.ended()
    assert await rows(conn, STEPS) == [
        ("reply", None, "scripted", True),
        ("intent", None, None, False),
        ("result", "Good day", "scripted", True),
        ("reply", None, "scripted", True),
    ]
    (request,) = small.requests
    (part,) = request.messages[0].parts
    assert isinstance(part, Text)
    assert (request.system, request.max_tokens, request.tools) == ("Translate.", 100, ())
    assert '"language": "en"' in part.text
    assert "support" not in part.text
    total = "select sum(cost) = (select cost from agent.run) and min(cost) > 0 from agent.step"
    assert await value(conn, f"{total} where kind <> 'intent'")
    tokens = "select tokens from agent.run"
    spent = "select sum(input_tokens + output_tokens) from agent.step"
    assert await value(conn, tokens) == await value(conn, spent)


async def test_llm_chat_asks_the_model_of_the_agent(conn: AsyncConnection, dsn: str) -> None:
    """With nothing of the run."""
    await run_all(conn, DESK)
    await attach(conn, "tools=[llm_chat]")
    model = ScriptedModel([call("llm_chat", message="2 + 2?"), "4", "Done."])
    async with daemon(conn, dsn, {"fake": model}) as d:
        await run_all(conn, TICKET)
        await d.ended()
    asked = [r for r in model.requests if r.messages[0].parts == (Text("2 + 2?"),)]
    assert len(asked) == 1
    assert asked[0].tools == ()


async def test_a_budget_counts_what_tools_ask(conn: AsyncConnection, dsn: str) -> None:
    """A call that it does not allow waits as a call of the agent does."""
    await run_all(conn, DESK + SETUP)
    await run_all(
        conn,
        "insert into agent.budget (name, model, max_tokens) values ('little', 'small', 10)",
    )
    await attach(conn, "tools=[translate]")
    own = ScriptedModel([call("translate", text="x", language="en"), "Done."])
    small = ScriptedModel(["y"], spec=replace(SPEC, name="small"))
    async with daemon(conn, dsn, {"fake": own, "small": small}) as d:
        await run_all(conn, TICKET)
        await d.until("select bool_or(state in ('waiting_retry', 'failed')) from agent.run")
    assert not small.requests
    assert "little" in await value(conn, "select error ->> 'reason' from agent.run")


async def test_a_rejected_request_is_a_result(conn: AsyncConnection, dsn: str) -> None:
    """The agent hears it."""
    await run_all(conn, DESK + SETUP)
    await attach(conn, "tools=[translate]")

    class Rejecting(ScriptedModel):
        async def complete(self, request: Request) -> Reply:  # noqa: ARG002 - of the protocol
            raise ModelRejectedError("too long")

    own = ScriptedModel([call("translate", text="x", language="en"), "Done."])
    async with daemon(conn, dsn, {"fake": own, "small": Rejecting(["y"])}) as d:
        await run_all(conn, TICKET)
        await d.ended()
    results = "select content ->> 'content', content ->> 'is_error' from agent.step"
    assert await rows(conn, f"{results} where kind = 'result'") == [("too long", "true")]


@pytest.mark.parametrize("point", ["tool.started", "tool.done"])
async def test_a_worker_that_dies_asks_again(conn: AsyncConnection, dsn: str, point: str) -> None:
    """One result is recorded, and paid once."""
    await run_all(conn, DESK + SETUP)
    await attach(conn, "tools=[translate]")
    own = ScriptedModel([call("translate", text="x", language="en"), "Done."])
    small = ScriptedModel(["y"])
    async with daemon(conn, dsn, {"fake": own, "small": small}, parts=("reader",)) as d:
        await run_all(conn, TICKET)
        await d.until("select count(*) = 1 from agent.run")
        with faults.armed(point):
            await d.start_worker()
            await d.dies("worker")
        await d.expire_leases()
        await d.start_worker()
        await d.ended()
    assert await value(conn, "select count(*) from agent.step where kind = 'result'") == 1


@pytest.mark.parametrize(
    "columns",
    [
        "'llm', 'nobody', 'idempotent', '{}'",
        "'llm', '', 'read', '{}'",
        "'llm', '', 'idempotent', null",
        "'llm', '', 'idempotent', '{\"sytem\": \"x\"}'",
        "'llm', '', 'idempotent', '{\"max_tokens\": 0}'",
        "'builtin', 'query', 'read', '{}'",
    ],
)
async def test_a_tool_that_cannot_be(conn: AsyncConnection, columns: str) -> None:
    """It is refused."""
    insert = "insert into agent.tool (name, kind, target, effect, llm, description)"
    error = await refused(conn, f"{insert} values ('t', {columns}, 'x')")
    assert error.sqlstate in {"WA011", "23514"}
