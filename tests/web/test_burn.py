"""Burn in two browsers, and requests in the form of its own front end."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.burn import Played, playing
from tests.helpers.database import column, value

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "src" / "walagent" / "console" / "assets" / "burn" / "index.html"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.web,
    pytest.mark.skipif(
        shutil.which("node") is None or not (HERE / "node_modules" / "playwright-core").is_dir(),
        reason="make web-test installs the packages",
    ),
]
FACTS = "select object from agent.fact where retracted_at is null order by created_at desc"
EVENTS = """
select number from agent.event
 where thread_id = (select id from agent.thread where title = 'Hobbies')
   and data ->> 'name' is distinct from 'do_nothing'
 order by number desc
"""


async def run(script: str, played: Played, **options: str | None) -> dict[str, Any]:
    """Run a script to its end; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        "node",
        script,
        json.dumps({"url": played.url, **options}),
        cwd=HERE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), 120)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return json.loads(out)


async def test_the_requests_of_its_own_front_end(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The public client syncs the five views; its mutations are applied and seen by their txid."""
    async with playing(dsn, tmp_path) as played:
        seen = await run("burn_client.mjs", played)
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


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_two_people_in_two_browsers(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Sign-in, a link, facts, jokes, a new name, a removal; the computer shows what psql shows."""
    assert PAGE.is_file(), "run make web: it builds the page"
    shots = os.environ.get("WALAGENT_SHOTS")
    async with playing(dsn, tmp_path, latency=0.1) as played:
        seen = await run("burn.mjs", played, chromium=CHROMIUM, shots=shots)
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
    assert seen["behind"] == [0] * 6
    github = "https://github.com"
    assert set(seen["requests"]) <= {played.url, github}
