"""The console in Chromium, beside a real daemon: pages, keys, decisions, and what axe finds."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.asked import analyst, let_ask
from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import column, value
from tests.helpers.desk import desk
from tests.helpers.people import person
from tests.helpers.talk import invite_people

HERE = Path(__file__).parent
WEB = HERE.parents[1] / "web"
ASSETS = HERE.parents[1] / "src" / "walagent" / "console" / "assets"
MODEL = """
insert into agent.model (name, provider, model_id, base_url, input_price, output_price)
values ('second', 'scripted', 'second', %s, 2, 8)
"""
SECOND = """
usage: {input_tokens: 1600, output_tokens: 100}
replies:
  - [The customer is asked., {call: update_row, arguments: {category: other}}]
  - Sorted.
"""
LAST_TURN = "select max(id) from agent.run where kind = 'turn'"
FIRST_VIEW = 300_000  # bytes, compressed
pytestmark = MARKS


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_a_person_uses_the_console(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Sign-in, the keys, a decision and a rejection, a retry, no network, sign-out."""
    assert (ASSETS / "index.html").is_file(), "run make web: it builds the page"
    async with (
        analyst(conn) as reader,
        desk(conn, dsn, tmp_path, f"ask: {{role: {reader}, model: asker}}\n") as started,
    ):
        await let_ask(conn, started, reader)
        seen = await use("console.mjs", link=started.link)
        assert seen["sockets"], "live rows came over no socket"
    assert seen["address"] == f"{started.url}/"  # the code has left the address
    assert seen["cookie"] == ""  # no script can read it
    assert seen["first"] < FIRST_VIEW
    assert seen["panel"] == "Run 7"
    assert seen["filtered"] == ["7", "4"]
    assert "<script>alert(1)</script>" in seen["escaped"]
    assert "<script>alert(1)</script>" in seen["prompt"]
    assert seen["answer"] == "Most tickets are how_to."
    counted = (
        "select coalesce(category, 'NULL') || E'\\t' || count(*) from ticket group by category"
    )
    by_category = await column(conn, f"{counted} order by category")
    assert seen["results"] == [["8"], by_category]  # of each step
    assert seen["plan"] == 3
    assert len(seen["statements"]) == 2
    assert seen["clarified"] == "Which of the two weeks?"
    saved = await value(conn, "select sql from agent.verified_query")
    assert saved == seen["statements"][1]
    assert seen["saved"].split() == ["Broken", "calls", "2"]
    assert seen["dialogs"] == 0
    assert seen["early"] == "May triage make this call?"
    assert seen["call"] == "refund_customer(ticket_id => 1, amount => 348.0)"
    assert "succeeded" in seen["went"]
    assert "needs a reason" in seen["missing"]
    assert seen["history"] == 2
    assert seen["offline"] == 10  # two are questions
    assert seen["back"] == "/runs?state=dead"
    assert "was used or is too old" in seen["used"]
    assert seen["axe"] == []
    assert seen["wide"] == []
    assert set(seen["requests"]) == {started.url}
    expected = ("401", "ERR_INTERNET_DISCONNECTED")  # answers that the script provokes
    assert [each for each in seen["errors"] if not any(e in each for e in expected)] == []
    decided = "select state || coalesce(': ' || reason, '') from agent.approval order by run_id"
    assert await column(conn, decided) == ["approved", "rejected: ask the customer first"]
    status = "select status from ticket where id = 1"
    assert await value(conn, status) == "refunded"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_each_page_suits_every_screen(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Of a phone and of a desk: axe finds nothing, and nothing is too wide."""
    async with (
        analyst(conn) as reader,
        desk(conn, dsn, tmp_path, f"ask: {{role: {reader}, model: asker}}\n") as started,
    ):
        await let_ask(conn, started, reader)
        seen = await use("looks.mjs", link=started.link)
    assert seen["prices"][:3] == ["$0.00", "$0.02", "$0.04"]  # of the axis: cents are not rounded
    assert (seen["axe"], seen["wide"], seen["errors"], seen["dialogs"]) == ([], [], [], 0)
    assert set(seen["requests"]) == {started.url}


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_people_and_an_agent_share_a_thread(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Joined by a link, written live, decided inline; the computer shows what psql shows."""
    async with desk(conn, dsn, tmp_path) as started:
        people = await invite_people(conn, started)
        seen = await use("threads.mjs", url=started.url, people=asdict(people))
    assert "does not exist, or you are no member" in seen["stranger"]
    assert seen["writing"] in "Good morning, everybody. What would you like to know about"
    assert seen["carets"] == 0
    assert seen["call"] == "refund_customer(amount => 12.5, ticket_id => 2)"
    assert "needs a reason" in seen["missing"]
    assert seen["omarDecides"] == seen["omarResumes"] == seen["veraMay"] == 0
    assert "Pause" not in seen["omarMay"]
    assert not [each for each in seen["omarMay"] if "Remove" in each]
    assert seen["veraReads"] > 5
    assert seen["veraDialog"] == ["Done"]
    assert seen["veraAsks"][0] == 0
    assert 'principal "vera" has no login' in seen["veraAsks"][1]
    facts = "select subject || ' ' || predicate || ' ' || object from agent.fact order by id"
    assert [each.strip() for each in seen["facts"]] == await column(conn, facts)
    turns = "select 'run ' || id from agent.run where kind = 'turn' order by id desc"
    shown = [each.split()[each.split().index("run") :][:2] for each in seen["processes"][1:]]
    assert [" ".join(each) for each in shown] == await column(conn, turns)
    pinned = await value(
        conn,
        "select content -> 'turn' ->> 'context' from agent.step"
        f" where run_id = ({LAST_TURN}) and content ? 'turn'",
    )
    assert isinstance(pinned, str)
    assert re.sub(r"[0-9a-f]{16}>", "…>", pinned) in seen["context"]
    assert "You are Jerry of the support desk." in seen["context"]
    assert len(seen["found"]) == 1
    assert "omar: Please remember that anna drinks tea" in seen["found"][0]
    assert seen["dialogs"] == 0
    assert seen["axe"] == []
    assert seen["wide"] == []
    assert [each for each in seen["errors"] if not re.search("401|403", each)] == []
    assert set(seen["requests"]) == {started.url}
    assert await value(conn, "select title from agent.thread") == "Friday refunds"
    members = "select principal from agent.member order by principal"
    assert await column(conn, members) == ["anna", "jerry"]
    assert await value(conn, "select status from ticket where id = 2") == "refunded"


def test_one_copy_of_the_database_of_the_page_is_installed() -> None:
    """Two copies of @tanstack/db do not know each other's collections."""
    lock = json.loads((WEB / "package-lock.json").read_text())
    copies = [each for each in lock["packages"] if each.endswith("node_modules/@tanstack/db")]
    assert copies == ["node_modules/@tanstack/db"]


def test_the_lock_names_no_host_of_a_registry() -> None:
    """Packages come from the registry that npm is configured with."""
    for folder in (WEB, HERE):
        lock = json.loads((folder / "package-lock.json").read_text())
        assert not [name for name, each in lock["packages"].items() if "resolved" in each]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_a_developer_edits_an_agent(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Difference, trial, versions, two drafts, pause, attach, detach; nothing for a viewer."""
    async with desk(conn, dsn, tmp_path) as started:
        (tmp_path / "second.yaml").write_text(SECOND)
        await conn.execute(MODEL, (str(tmp_path / "second.yaml"),))
        before = await column(conn, "select to_jsonb(t)::text from ticket t order by id")
        vera = await person(conn, "vera", "viewer")
        seen = await use("agents.mjs", link=started.link, viewer=vera)
    assert seen["unchanged"]
    assert seen["blocked"]
    assert seen["wrong"] == ["Expected a whole number above 0."]
    assert "<script>alert(1)</script>" in seen["added"][-1]
    assert seen["choices"] == 8
    assert "for the first call of each" in seen["price"]
    assert seen["tried"] == [
        "category\thow_to\thow_to\t+ other",
        "category\tbilling\tbilling\t+ other",
    ]
    assert seen["asks"] == 1
    assert seen["measures"][:2] == [
        "Succeeded\t1\t2\t+1",
        "Would wait for approval\t1\t0\t\N{MINUS SIGN}1",
    ]
    assert await column(conn, "select to_jsonb(t)::text from ticket t order by id") == before
    assert await value(conn, "select count(*) from agent.run") == 8
    assert "20 → 7" in seen["compared"]
    assert "Your draft is from v3" in seen["late"]
    assert seen["kept"] == "Too late."
    assert "column new.nothing does not exist" in seen["condition"]
    assert seen["focus"] == "f-condition"
    assert "no_such_tool" in seen["tool"]
    assert (seen["attaches"], seen["fields"]) == (0, 0)
    assert seen["offered"] == ["Copy"]  # the prompt
    assert seen["viewed"] == []
    versions = "select definition ->> 'system_prompt' from agent.agent_version order by version"
    first, second, third, fourth = await column(conn, versions)
    assert str(second).startswith(str(first))
    assert (third, fourth) == (first, "Somebody was faster.")
    assert await value(conn, "select version from agent.attachment") == 4
    assert seen["axe"] == []
    assert seen["wide"] == []
    assert [each for each in seen["errors"] if not re.search("400|401|404", each)] == []
    assert set(seen["requests"]) == {started.url}


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_a_row_says_why(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Why a row has runs, and why another has none; a viewer without a login sees no row."""
    async with desk(conn, dsn, tmp_path) as started:
        viewer = await person(conn, "vic", "viewer")
        seen = await use("tables.mjs", link=started.link, viewer=viewer)
    assert "triage matched" in seen["why"]
    assert "triage no run" in seen["whyNot"]
    assert "no login" in seen["refused"]
    assert seen["rows"] == 0
    assert (seen["axe"], seen["wide"]) == ([], [])
