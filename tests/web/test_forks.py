"""Forks and interruptions in Chromium."""

from dataclasses import asdict
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import rows, value
from tests.helpers.desk import SUBJECTS, desk
from tests.helpers.talk import invite_people

pytestmark = MARKS
SORTED = """
select id from agent.run where change -> 'new' ->> 'subject' = %s and state = 'succeeded'
"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_a_run_goes_on_from_a_step_and_a_turn_is_interrupted(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Each page names the other; who only reads is offered nothing; what was said stays."""
    async with desk(conn, dsn, tmp_path) as started:
        people = await invite_people(conn, started)
        run = await value(conn, SORTED, SUBJECTS[4])
        seen = await use("forks.mjs", link=started.link, run=run, people=asdict(people))
        made = "select fork_of, fork_step from agent.run where fork_of is not null"
        assert await rows(conn, made) == [(run, 1)]
    assert (seen["offered"], seen["theirs"]) == (3, 0)
    assert '"category": "how_to"' in seen["arguments"]
    assert f"Goes on from step 1 of run {run}" in seen["fork"][0]
    assert seen["early"] == 0
    first, second, cut, *rest = seen["bubbles"]
    assert (first, second) == ("Tell me everything", "Stop! Please remember that anna drinks tea")
    assert cut.startswith("Good morning, everybody")
    assert cut.endswith("cut off")
    assert rest[-1] == "I have noted it."
    assert (seen["axe"], seen["wide"], seen["dialogs"]) == ([], [], 0)
    assert seen["unexpected"] == []  # a viewer reads which runs are forks
