"""Approvals in Chromium: many calls that wait, read and decided together."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import rows, run_all, until
from tests.helpers.desk import desk

# Two calls wait already: their tool had no risk, which counts as critical.
RISK = """
insert into agent.tool (name, kind, target, risk)
values ('refund_customer', 'sql', 'refund_customer(bigint, numeric)', 'low');
update agent.attachment set version = version + 1;
insert into ticket (subject) values ('a claim of ann'), ('a smaller claim'), ('a claim of bob')
"""
WAITING = "select count(*) = 5 from agent.approval where state = 'pending'"
DECIDED = """
select arguments ->> 'amount', risk, state::text from agent.approval order by 1, 3
"""
pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]


async def test_many_calls_are_decided_together_and_only_those_that_were_shown(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Their whole effect is shown first; what is risky, or was decided meanwhile, is not part."""
    async with desk(conn, dsn, tmp_path) as started:
        await run_all(conn, RISK)
        await until(conn, WAITING)
        seen = await use("approvals.mjs", link=started.link)
    assert seen["all"] == "All 5 shown"
    assert seen["alone"] == ["its risk is critical"] * 2
    assert seen["button"] == "Approve 3 calls"
    assert seen["narrowed"] == ["tool:refund_customer amount:<50", "All 3 shown"]
    assert seen["order"] == ["9.99", "12.5", "12.5"]
    assert seen["sum"] == "34.99"
    assert seen["early"] == 3
    assert seen["elsewhere"] == ["Approve 2 calls", "22.49"]
    assert seen["said"] == "Approved 2 calls."
    assert seen["left"] == "2 wait"
    assert await rows(conn, DECIDED) == [
        ("12.5", "low", "approved"),
        ("12.5", "low", "rejected"),
        ("348.0", "critical", "pending"),
        ("348.0", "critical", "pending"),
        ("9.99", "low", "approved"),
    ]
    assert (seen["axe"], seen["wide"], seen["errors"]) == ([], [], [])
