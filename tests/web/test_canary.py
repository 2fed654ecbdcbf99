"""The two versions of an agent with a shadow, in Chromium."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import rows, run_all, until, value
from tests.helpers.desk import desk
from tests.helpers.people import person

pytestmark = MARKS
SECOND = """
replies:
  - - {call: update_row, arguments: {category: bug}}
  - Sorted into bug.
"""
MODEL = """
insert into agent.model (name, provider, model_id, base_url, input_price, output_price)
values ('second', 'scripted', 'second', %s, 0.8, 4)
"""
SHADOWED = "select count(*) = 1 from agent.shadow_run where outcome = 'other'"


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_a_shadow_is_compared_and_ended(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Figures side by side; a viewer sees them and ends nothing; without one, how it begins."""
    async with desk(conn, dsn, tmp_path) as started:
        (tmp_path / "second.yaml").write_text(SECOND)
        await conn.execute(MODEL, [str(tmp_path / "second.yaml")])
        await value(conn, "select agent.shadow('triage', 'model=second')")
        await run_all(conn, "insert into ticket (subject) values ('dark mode, again')")
        await until(conn, SHADOWED)
        viewer = await person(conn, "vera", "viewer")
        seen = await use("canary.mjs", link=started.link, viewer=viewer)
        ended = "select state, reason from agent.canary"
        assert await rows(conn, ended) == [("rolled_back", "We have seen <b>enough</b>.")]
    base, other = seen["compared"]
    assert base.startswith("v1 baseline 1 0 % 0 % ")
    assert other.startswith("v2 shadow 1 0 % \u2013 ")
    assert "0 same, 1 other, 0 failed, 0 waiting" in seen["said"][0]
    assert (seen["links"], seen["offered"]) == (1, 0)
    assert "select agent.shadow('triage', 'model=NAME')" in seen["none"]
    assert (seen["axe"], seen["wide"], seen["dialogs"]) == ([], [], 0)
