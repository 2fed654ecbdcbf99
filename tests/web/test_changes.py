"""The row of a run in Chromium: for viewers whose logins can and cannot read the table."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import role, run_all, value
from tests.helpers.desk import SUBJECTS, desk
from tests.helpers.people import person

pytestmark = MARKS
FIRST = "select min(id) from agent.run where change -> 'new' ->> 'subject' = %s"


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_the_row_of_a_run_is_shown_to_who_can_read_it(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The other sees the run, and that columns are hidden; no page fails for want of them."""
    word = SUBJECTS[0]
    async with desk(conn, dsn, tmp_path) as started, role(conn) as login:
        people = {name: await person(conn, name, "viewer") for name in ("vic", "bob")}
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        await run_all(conn, f"grant select on ticket to {login}")
        run = await value(conn, FIRST, word)
        seen = await use("changes.mjs", base=started.url, people=people, run=run, word=word)
        await run_all(conn, "update agent.principal set login = null")
        await run_all(conn, f"drop owned by {login}")
    assert seen["vic"]["word"] >= 3
    assert (seen["vic"]["hidden"], seen["vic"]["errors"]) == (0, [])
    assert seen["bob"] == {"word": 0, "hidden": 1, "errors": []}
