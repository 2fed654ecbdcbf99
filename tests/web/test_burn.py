"""Burn in two browsers, and requests in the form of its own front end."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.burn import playing
from tests.helpers.database import column, value

PAGE = Path(__file__).parents[2] / "src" / "walagent" / "console" / "assets" / "burn" / "index.html"
pytestmark = MARKS
FACTS = "select object from agent.fact where retracted_at is null order by created_at desc"
EVENTS = """
select number from agent.event
 where thread_id = (select id from agent.thread where title = 'Hobbies')
   and data ->> 'name' is distinct from 'do_nothing'
 order by number desc
"""


async def test_the_requests_of_its_own_front_end(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The public client syncs the five views; its mutations are applied and seen by their txid."""
    async with playing(dsn, tmp_path) as played:
        seen = await use("burn_client.mjs", url=played.url)
    assert seen["roles"] == ["comedian", "comedian", "owner", "producer"]
    assert seen["inserted"] is True
    assert seen["claimed"].startswith("403 cannot join as")
    assert seen["joined"] == 5
    assert seen["fact"] == [True, True, 0.9, False]
    assert seen["call"] == "extract_facts"
    assert seen["producer"].startswith('403 the producer "sarah"')
    assert seen["left"] == ["alice", "bob", "frankie", "sarah"]
    assert seen["threads"] == [2, 2]
    assert await value(conn, "select count(*) from agent.thread") == 3


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_two_people_in_two_browsers(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Sign-in, a link, facts, jokes, a new name, a removal; the computer shows what psql shows."""
    assert PAGE.is_file(), "run make web: it builds the page"
    async with playing(dsn, tmp_path, latency=0.1) as played:
        seen = await use("burn.mjs", url=played.url)
    assert seen["theme"] == "dark"
    assert "2 to 16" in seen["refused"]
    assert 'the name "alice" is taken' in seen["taken"]
    assert seen["cookie"] == ""  # no script can read it
    assert len(seen["escaped"]) == 1
    assert [words.split()[1] for words in seen["jokes"]][:2] == ["jerry", "frankie"]
    assert seen["filtered"] == ["chess"]
    assert seen["processes"] == ["frankie"]
    assert seen["facts"] == await column(conn, FACTS)
    assert seen["context"] == await column(conn, EVENTS)
    assert seen["removable"] == []
    assert sorted(seen["owned"]) == ["Remove bob", "Remove frankie", "Remove jerry"]
    assert seen["kept"] == "light"
    assert seen["status"] == 401
    expected = ("400", "401", "409", "ERR_")  # answers that the script provokes; no way out
    assert [each for each in seen["errors"] if not any(e in each for e in expected)] == []
    assert (seen["axe"], seen["wide"]) == ([], [])
    assert set(seen["behind"]) == {0}
    github = "https://github.com"
    assert set(seen["requests"]) <= {played.url, github}
