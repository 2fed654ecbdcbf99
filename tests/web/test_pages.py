"""What single pages of the console show, beside a real daemon."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import session, until
from tests.helpers.desk import desk

LARGE = 9007199254740993  # a JavaScript number would be ...992
RENEWAL = "insert into ticket (customer_id, subject) values (%s, 'annual renewal')"
TEMPORARY = "select pg_create_logical_replication_slot('walagent_sync_1_a', 'pgoutput', true)"
FIGURES = [
    "/runs?since=today",
    "/runs?state=failed,dead&since=today",
    "/runs?state=succeeded&since=1h",
    "/runs?state=pending,running",
    "/cost",
    "/wal",
]
pytestmark = MARKS


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_pages_show_what_the_database_has(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Readers, lag and publication; numbers and empty texts as they are stored."""
    async with desk(conn, dsn, tmp_path) as started, session(dsn) as reader:
        await reader.execute(TEMPORARY)
        await conn.execute(RENEWAL, (LARGE,))
        await until(conn, "select count(*) = 3 from agent.run where state = 'waiting_approval'")
        seen = await use("pages.mjs", link=started.link, run=9)
    readers = [line.split("\t") for line in seen["readers"]]
    assert [each[1] for each in readers] == ["reader", "walagent sync temporary slot"]
    assert readers[1][0].endswith("walagent_sync_1_a")
    assert [each[2] for each in readers] == ["reading", "reading"]
    assert seen["publication"] == ["ticket\tINSERT\tall\ttriage"]
    assert "approval, attachment" in seen["own"]
    assert "the longest of each minute of the last hour" in seen["lag"]
    assert seen["figures"] == FIGURES
    assert seen["current"] == "Agents"
    assert seen["row"] == ["id\t+ 9", "body\t+ ''", "status\t+ open"]
    assert str(LARGE) in seen["customer"]
    assert seen["call"] == "refund_customer(amount => 348.0)"
    assert seen["types"][:2] == ["ticket_id\tbigint\t9", "amount\tnumeric\t348.0"]
    assert str(LARGE) in seen["decided"]
    assert (seen["errors"], seen["axe"], seen["wide"]) == ([], [], [])
