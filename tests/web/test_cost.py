"""Budgets in Chromium: raised where they are read, and what waits goes on."""

import asyncio
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import DEADLINE, rows, until, value
from tests.helpers.desk import desk
from tests.helpers.people import person

NAME = "all_calls_of_all_agents_of_the_support_desk_in_hamburg_this_month"
BUDGET = f"insert into agent.budget (name, period, max_cost) values ('{NAME}', 'month', 0.021)"
WAITS = """
select count(*) > 0 from agent.run
 where error ? 'budget' and next_attempt_at > now() + interval '1 minute'
"""
pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]


async def test_a_budget_is_raised_where_it_is_read(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """It says what goes on at once, which goes on; others read who may change it."""
    async with desk(conn, dsn, tmp_path) as started:
        await conn.execute(BUDGET)
        vera = await person(conn, "vera", "viewer")
        async with asyncio.timeout(DEADLINE):  # workers read a new budget soon, not at once
            while not await value(conn, WAITS):
                await conn.execute("insert into ticket (subject) values ('dark mode')")
                await asyncio.sleep(0.5)
        seen = await use("cost.mjs", link=started.link, viewer=vera, name=NAME)
        await until(conn, "select bool_and(state = 'succeeded') from agent.run where id > 8")
    assert seen["waits"].endswith(" now")
    assert seen["unchanged"] is True
    assert "above 0" in seen["wrong"]
    assert "exhausted with this limit" in seen["spent"]
    assert "left. The" in seen["said"]
    assert "tried again at once." in seen["said"]
    assert f"{NAME} is $60.00 a day now." in seen["toast"]
    assert seen["taken"] == f"There is a budget {NAME}."
    assert (seen["chosen"], seen["made"]) == (True, "agent triage")
    assert seen["viewer"][0] == 0
    assert "update agent.budget set max_cost = 60" in seen["viewer"][1]
    assert await rows(conn, "select max_cost::text, period, on_exceeded from agent.budget") == [
        ("60", "day", "wait")
    ]
    assert (seen["axe"], seen["wide"]) == ([], [])
    assert [each for each in seen["errors"] if "401" not in each and "404" not in each] == []
