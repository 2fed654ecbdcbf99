"""A worker of one's own is killed at each of its statements; the next one continues the turn."""

import sys
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.faults.rig.processes import Process, running
from tests.faults.rig.stage import Figure
from tests.faults.rig.turns import EXPIRE, PATIENCE, fetch_none
from tests.faults.rig.waiting import fetch, until_true
from tests.integration.own_worker.rig import Desk, desk
from walagent.models.script import call
from walagent.testing import FakeProvider

pytestmark = pytest.mark.scenario(1)
KILLED = -9
SCRIPT = [
    call("web_search", query="joins"),
    call("remember", key="joins", value="asked about"),
    call("add_note", text="joins"),
    "Use INNER JOIN.",
]
ENDED = "select count(*) = 1 from agent.run where agent_internal.is_final(state)"
PROGRESS = """
select count(*), (select count(*) from agent.event), (select count(*) from agent.run),
       (select count(*) from agent.run where lease_expires_at > agent_internal.now())
  from agent.step
"""
POSTED = """
select type, coalesce(data ->> 'name', data ->> 'tool_name', data ->> 'text')
  from agent.event where author = 'helper' order by number
"""
APPROVE = "select agent.approve(id) from agent.pending_approval"


def worker(d: Desk, dsn: str, folder: Path, provider: FakeProvider, *at: str) -> Process:
    """Start the program as the worker's login, to die at a statement."""
    words = [make_conninfo(dsn, user=d.names[0]), str(d.thread), *at]
    environment = {
        "OPENAI_API_KEY": provider.key,
        "OPENAI_BASE_URL": provider.spec("openai").base_url or "",
    }
    module = "tests.faults.rig.own_worker"
    return Process(folder / "worker.log", [sys.executable, "-m", module, *words], environment)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.slow)])
async def test_a_worker_that_is_killed_at_any_statement_answers_once(
    conn: AsyncConnection, dsn: str, tmp_path: Path, when: str, figure: Figure
) -> None:
    """A search, a memory, a call that is approved, an answer: each of them once."""
    async with FakeProvider(SCRIPT) as provider, desk(conn, dsn, approve="{add_note}") as d:
        await fetch_none(conn, PATIENCE)
        await d.call("add_user_message", d.thread, "How do I join?", who=d.person)
        number, deaths, before = 1, 0, await fetch(conn, PROGRESS)
        while not (await fetch(conn, ENDED))[0][0]:
            with running(worker(d, dsn, tmp_path, provider, when, str(number))) as process:

                async def is_over(process: Process = process) -> bool:
                    await fetch(conn, APPROVE)
                    return process.has_ended

                await until_true(is_over, f"the worker ends, which dies {when} {number}")
                code = await process.ended()
                assert code in {0, KILLED}, process.said[-3000:]
                deaths += code == KILLED
            await fetch_none(conn, EXPIRE)
            after = await fetch(conn, PROGRESS)
            number, before = (number + 1 if after == before else 1), after
        assert deaths > 5
        assert await fetch(conn, POSTED) == [
            ("tool_use", "web_search"),
            ("tool_result", "web_search"),
            ("tool_use", "remember"),
            ("tool_result", "remember"),
            ("tool_use", "add_note"),
            ("tool_result", "add_note"),
            ("text", "Use INNER JOIN."),
        ]
        assert await fetch(conn, "select count(*) from note") == [(1,)]
        assert await fetch(conn, "select count(*) from agent.memory") == [(1,)]
        assert await fetch(conn, "select count(*) from agent.approval") == [(1,)]
        assert await fetch(conn, "select state::text from agent.run") == [("succeeded",)]
        assert await fetch(conn, "select * from agent.broken_invariant") == []
    figure("kills of a worker of one's own", deaths)
