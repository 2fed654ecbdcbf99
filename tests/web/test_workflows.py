"""Workflows in Chromium: where a run is, and what it waits for."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import until, value
from tests.helpers.desk import desk

NAME = "renewals_that_were_charged_after_they_had_been_switched_off_all"
CREATE = """
select agent.create_workflow(%s,
    nodes => '[{"name": "route", "kind": "router"},
               {"name": "ask", "kind": "human", "type": "approval", "prompt": "Call {{who}}?"}]',
    edges => '[{"from": "route", "to": "ask", "condition": "state ? ''who''"},
               {"from": "route", "to": "__end__"}]',
    description => 'A person is asked before a customer is called.')
"""
START = 'select agent.start_workflow(%s, \'{"who": "anna"}\')'
WAITS = "select state = 'waiting_approval' from agent.run where kind = 'node'"
pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]


async def test_a_run_of_a_workflow_is_found_where_it_waits(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """In the graph and with its state; the decision is one link away."""
    async with desk(conn, dsn, tmp_path) as started:
        await conn.execute(CREATE, [NAME])
        run = await value(conn, START, NAME)
        await until(conn, WAITS)
        seen = await use("workflows.mjs", link=started.link, run=run, name=NAME)
    assert seen["listed"][0].startswith(NAME)
    assert [each.strip() for each in seen["listed"][1:7]] == ["1", "2", "1", "0", "1", "0"]
    assert seen["words"] == "route: router, then ask or the end; ask: human"
    assert "at ask" in seen["where"]
    assert seen["marked"] == ["route ok", "ask at"]
    assert seen["states"] == ["1. start, next route", "2. after route, next ask"]
    assert seen["ended"][:2] == ["route ok", "ask ok"]
    assert (seen["axe"], seen["wide"]) == ([], [])
    assert [each for each in seen["errors"] if "40" not in each] == []
