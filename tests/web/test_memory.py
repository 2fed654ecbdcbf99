"""Memory and documents in Chromium: told, corrected and withdrawn by people."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import rows
from tests.helpers.desk import desk
from tests.helpers.people import person

pytestmark = [*MARKS, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")]


async def test_what_agents_know_is_corrected_by_people(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """What a person does not know of is not overwritten; who may not, is told why."""
    async with desk(conn, dsn, tmp_path) as started:
        viewer, nobody = await person(conn, "vera", "viewer"), await person(conn, "nora")
        seen = await use("memory.mjs", link=started.link, viewer=viewer, nobody=nobody)
        for table in "memory", "document":
            assert await rows(conn, f"select id from agent.{table}") == []
    assert "nobody_of_this_name" in seen["refused"]
    assert [each.partition(": ")[2] for each in seen["replaced"]] == ["Ann handles refunds"]
    assert seen["listed"] == ["triage disputed refunds Bob handles refunds a person"]
    assert seen["state"] == "?state=replaced"
    assert (seen["ready"], seen["link"], seen["offered"]) == (True, "noreferrer noopener", 0)
    assert seen["kept"] == "Customers get their money back within 50 days."
    assert (seen["axe"], seen["wide"], seen["dialogs"]) == ([], [], 0)
    unexpected = [
        each for each in seen["errors"] if not any(n in each for n in ("401", "400", "404"))
    ]
    assert unexpected == []
