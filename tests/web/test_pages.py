"""What single pages of the console show, beside a real daemon."""

import asyncio
import re
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.asked import SCRIPT, analyst, let_ask
from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import column, rows, session, until, value
from tests.helpers.desk import desk
from tests.helpers.people import person
from tests.helpers.talk import invite_people

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
SLOW = "latency: 1.5\n" + SCRIPT.replace(
    "rules:\n",
    "rules:\n  - {match: Which failure, replies: [{fault: {status: 400}}]}\n",
    1,
)
QUESTION = "How many tickets are there in each category?"
pytestmark = MARKS


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_pages_show_what_the_database_has(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Readers, lag and publication; numbers and empty texts as they are stored."""
    async with desk(conn, dsn, tmp_path) as started, session(dsn) as reader:
        await reader.execute(TEMPORARY)
        await invite_people(conn, started)  # an agent of threads: no table of the application
        await conn.execute(RENEWAL, (LARGE,))
        await until(conn, "select count(*) = 3 from agent.run where state = 'waiting_approval'")
        waiting = await rows(conn, "select id::text, run_id from agent.approval order by id")
        ids = [approval for approval, _ in waiting]
        seen = await use("pages.mjs", link=started.link, run=9, approvals=ids)
    readers = [line.split("\t") for line in seen["readers"]]
    assert [each[1] for each in readers] == ["reader", "walagent sync temporary slot"]
    assert readers[1][0].endswith("walagent_sync_1_a")
    assert [each[2] for each in readers] == ["reading", "reading"]
    assert seen["publication"] == [
        "ticket\tINSERT UPDATE DELETE TRUNCATE\tall\ttriage",  # it has corrections
        "agent.event\tINSERT\tall\tjerry",
    ]
    assert (seen["counted"], seen["listed"]) == ("1", 1)
    assert "approval, attachment" in seen["own"]
    assert "the longest of each minute of the last hour" in seen["lag"]
    assert seen["figures"] == FIGURES
    calls = [f"refund_customer(ticket_id => {n}, amount => 348.0)" for n in (1, 3, 9)]
    assert sorted(seen["waits"]) == calls  # with what is bound
    assert seen["current"] == "Agents"
    assert seen["row"] == ["id\t+ 9", "body\t+ ''", "status\t+ open"]
    assert str(LARGE) in seen["customer"]
    assert seen["call"] == "refund_customer(amount => 348.0)"
    assert seen["types"][:2] == ["ticket_id\tbigint\t9", "amount\tnumeric\t348.0"]
    assert str(LARGE) in seen["decided"]
    assert seen["reviewed"] == [[f"/runs/{run}", 1] for _, run in waiting]
    assert seen["lost"] == "This page does not exist."
    assert "the database is not available" in seen["away"]
    assert (seen["errors"], seen["axe"], seen["wide"]) == ([], [], [])


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_a_question_is_followed_opened_and_asked_again(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """What is done shows while it is done; own questions stay, with their rows."""
    async with (
        analyst(conn) as reader,
        desk(conn, dsn, tmp_path, f"ask: {{role: {reader}, model: asker}}\n") as started,
    ):
        await let_ask(conn, started, reader)
        (tmp_path / "asked.yaml").write_text(SLOW)
        vera = await person(conn, "vera", "viewer")
        seen = await use("ask.mjs", link=started.link, other=vera)
    planned = [each.split("\n") for each in seen["planned"]]
    assert planned[0] == ["planned", "3 steps"]
    assert [each[0] for each in planned[1:]] == ["reading", "reading", "waits", "answer"]
    assert [each.split("\n")[0] for each in seen["read"][1:3]] == ["1 row", "3 rows"]
    assert seen["gone"] == 0
    assert (seen["field"], seen["focused"]) == (QUESTION, "question")
    assert seen["kept"] == "Which failure?"
    failed, answered = seen["listed"]
    assert failed.startswith("Which failure?")
    assert answered == f"{QUESTION} Most tickets are how_to.\tanswered"
    assert seen["answer"] == "Most tickets are how_to."
    counted = (
        "select coalesce(category, 'NULL') || E'\\t' || count(*) from ticket group by category"
    )
    # Of both steps: nothing was made of either.
    assert seen["rows"] == ["8", *await column(conn, f"{counted} order by category")]
    assert len(seen["statements"]) == 2
    assert seen["path"] == "/ask"
    assert "answered 400" in seen["reason"]
    assert (seen["own"], seen["others"]) == (3, [[], [], []])
    assert await value(conn, "select count(*) from agent.question") == 3
    assert [each for each in seen["errors"] if not re.search("40[013]|502", each)] == []
    assert (seen["axe"], seen["wide"]) == ([], [])


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_pages_outlive_a_killed_daemon(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """They say that it is away, keep what they show, and catch up without a reload."""
    away = tmp_path / "away"
    async with desk(conn, dsn, tmp_path) as started:
        given = {"link": started.link, "pid": started.process.pid, "away": str(away)}
        using = asyncio.create_task(use("faults.mjs", **given))
        while not (away.exists() or using.done()):  # noqa: ASYNC110 - the event is a file
            await asyncio.sleep(0.1)
        for subject in ("annual renewal", "production outage"):
            await conn.execute("insert into ticket (subject) values (%s)", (subject,))
        async with started.started_again():
            seen = await using
    assert seen["kept"] == [6, 8, 3, 2, 1, 1]
    assert seen["mark"] == "Reconnecting"
    assert seen["loads"] == []
    assert len(seen["caught"]) == 6
    assert seen["off"]
    assert await column(conn, "select state from agent.approval order by id") == ["pending"] * 3
    expected = "ERR_CONNECTION|WebSocket connection|(409|503) "  # it is away, and starts again
    assert [each for each in seen["errors"] if not re.search(expected, each)] == []
    assert (seen["axe"], seen["wide"]) == ([], [])
