"""Threads, runs, approvals and memory from Python."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import run_all, until, value
from tests.integration.threads.test_turns import AGENT
from walagent import Agents, AsyncAgents, WalagentError
from walagent.models.script import call


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[AsyncAgents]:
    """A client of the login."""
    async with AsyncAgents(dsn) as agents:
        yield agents


async def test_an_agent_is_asked_in_a_thread(conn: AsyncConnection, dsn: str) -> None:
    """The text is posted, a turn answers it, and its run can be read."""
    await run_all(conn, AGENT)
    async with daemon(conn, dsn, ["An inner join."]), opened(dsn) as agents:
        thread = await agents.open_thread("Talk", ["sarah"])
        found = await agents.ask(thread, "Which join?", seconds=20)
        assert (found["text"], found["author"]) == ("An inner join.", "sarah")
        assert [each["type"] for each in await agents.events(thread)][-1] == "text"
        assert [each["id"] for each in await agents.threads()] == [thread]
        (run,) = await agents.runs(["succeeded", "running"])
        assert (await agents.run(run["id"]))["kind"] == "turn"


async def test_errors_are_one_sentence(conn: AsyncConnection, dsn: str) -> None:
    """With a hint and SQLSTATE, and no line of PostgreSQL's context."""
    del conn
    async with opened(dsn) as agents:
        for wrong in (
            agents.post(uuid4(), "x"),
            agents.run(1),
            agents.retry(99),
            agents.approve(99),
            agents.runs(["odd"]),
            agents.ask(UUID(int=0), "x"),
        ):
            with pytest.raises(WalagentError) as caught:
                await wrong
            assert "CONTEXT" not in str(caught.value)
            assert "\n" not in str(caught.value)


async def test_memory_and_approvals(conn: AsyncConnection, dsn: str) -> None:
    """What a person does with what agents know and want."""
    await run_all(
        conn,
        "create function pay() returns text language sql as $$ select 'paid' $$;"
        "insert into agent.tool (name, kind, target, approval) values ('pay', 'sql', 'pay', true);",
    )
    await run_all(
        conn,
        AGENT.replace("(name, model,", "(tools, name, model,").replace(
            "('sarah',", "('{pay}', 'sarah',"
        ),
    )
    async with opened(dsn) as agents:
        memory = await agents.remember("sarah", {"color": "blue"}, key="color")
        assert [each["key"] for each in await agents.memories("sarah")] == ["color"]
        assert [each["value"] for each in await agents.recall("sarah", "blue")] == [
            {"color": "blue"}
        ]
        assert await agents.forget(memory)
        thread = await agents.open_thread("Talk", ["sarah"])
        async with daemon(conn, dsn, [call("pay"), "Not paid."]):
            await agents.post(thread, "Pay!")
            await until(conn, "select exists (select from agent.approval)")
            (waiting,) = await agents.approvals()
            await agents.reject(waiting["id"], "too much")
            assert await value(conn, "select state from agent.approval") == "rejected"


def test_without_an_event_loop(dsn: str) -> None:
    """The same calls, as functions."""
    with Agents(dsn) as agents:
        thread = agents.open_thread("Notes")
        number = agents.post(thread, "A note.")
        assert [each["number"] for each in agents.events(thread, after=number - 1)] == [number]
        assert agents.runs() == []
        assert agents.approvals() == []
