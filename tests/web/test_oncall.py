"""A person on call, in Chromium: decides what was read, sees slow answers, and signs in again."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import column, run_all
from tests.helpers.desk import desk
from tests.helpers.people import person

PAUSED = """
update agent.attachment set paused = true, paused_reason = '402 credit balance is too low'
"""
pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]


@pytest.mark.slow
async def test_nothing_is_decided_unread_and_no_answer_is_lost(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A call that somebody else decides stays where it is read; the next one needs its own look."""
    async with desk(conn, dsn, tmp_path) as started:
        token = await person(conn, "vera", "viewer")
        await run_all(conn, PAUSED)
        seen = await use("oncall.mjs", link=started.link, token=token)
    first, second = sorted(await column(conn, "select id::text from agent.approval"))
    assert seen["pinned"] == f"?approval={first}"
    assert seen["kept"] == [seen["read"], seen["pinned"], 0]
    assert seen["next"] != seen["read"]
    assert seen["undecided"] == 3
    assert seen["nowhere"] == 0
    assert seen["slow"] == [["home", True, 1], ["wal", True, 1]]
    state, problems = seen["problems"]
    assert state == "1 to act on"
    assert [each.split("\n")[0] for each in problems] == ["triage has stopped"]
    assert "402 credit balance is too low" in problems[0]
    assert "walagent agents resume triage" in problems[0]
    assert "broken attachment" in seen["first"]
    assert (seen["before"], seen["after"]) == ("approval", "pending")
    assert seen["wal"] == "checkpoint advances"
    assert (seen["axe"], seen["wide"]) == ([], [])
    address, notice = seen["ended"]
    assert address == "/sign-in?to=%2Fruns%3Fstate%3Dfailed&ended=1"
    assert "Your session has ended" in notice
    states = "select state::text from agent.approval order by id"
    assert await column(conn, states) == ["approved", "rejected"], second
    assert seen["dialogs"] == 0
