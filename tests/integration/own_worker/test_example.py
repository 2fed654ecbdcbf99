"""The worker of examples/own_worker.py, as a program, against a provider."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import rows, run_all, until, value
from tests.integration.own_worker.rig import Desk, desk
from walagent.models.script import call
from walagent.testing import FakeProvider

PROGRAM = Path(__file__).parents[3] / "examples" / "own_worker.py"


async def worker(d: Desk, dsn: str, provider: FakeProvider) -> Process:
    """Start the program as the worker's login."""
    return await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), make_conninfo(dsn, user=d.names[0]), str(d.thread),
        env={**os.environ, "OPENAI_API_KEY": provider.key,
             "OPENAI_BASE_URL": provider.spec("openai").base_url or ""},
        stderr=PIPE,
    )  # fmt: skip


@pytest.mark.slow
async def test_a_worker_dies_in_mid_turn_and_another_one_finishes(
    conn: AsyncConnection, dsn: str
) -> None:
    """Question, call, approval, kill -9, result, answer: each of them once."""
    script = [call("web_search", query="joins"), call("add_note", text="joins"), "Use INNER JOIN."]
    async with (
        FakeProvider(script) as provider,
        desk(conn, dsn, approve="{add_note}", lease="2 seconds") as d,
    ):
        await d.call("add_user_message", d.thread, "How do I join?", who=d.person)
        first = await worker(d, dsn, provider)
        await until(conn, "select exists (select from agent.pending_approval)")
        first.kill()
        await first.wait()
        await run_all(conn, "select agent.approve(id) from agent.pending_approval")
        second = await worker(d, dsn, provider)
        _, said = await second.communicate()
        assert second.returncode == 0, said.decode()
        assert await value(conn, "select result from agent.run") == "Use INNER JOIN."
        assert await value(conn, "select count(*) from note") == 1
        assert provider.requests == len(script)
        posted = await rows(conn, "select type from agent.event where author = 'helper'")
        assert [kind for (kind,) in posted] == [
            "tool_use", "tool_result", "tool_use", "tool_result", "text"
        ]  # fmt: skip
