"""Tabs of one browser, which share what the public client stores about handles that have ended."""

import asyncio

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM
from tests.helpers.database import rows, run_all
from tests.helpers.node import Script, needs_node, script
from tests.helpers.shapes import SECRET, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot

pytestmark = [
    pytest.mark.web,
    needs_node,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing"),
]
TABLE = """
create table item (id bigint primary key, title text);
insert into item values (1, 'one'), (2, 'two');
"""
HOLD = 0.2  # seconds that the server holds a live request


async def show(conn: AsyncConnection, tabs: Script, *numbers: int) -> None:
    """Wait until tabs show the table."""
    found = await rows(conn, "select id, title from item")
    await tabs.until([{"tab": n, "id": i, "title": t} for n in numbers for i, t in found])


async def does(tabs: Script, **command: int) -> object:
    """Do something in the browser; return what it gives."""
    tabs.send(**command)
    (name,) = command
    return await tabs.find(name)


async def test_tabs_of_a_browser_show_the_table(conn: AsyncConnection, dsn: str) -> None:
    """Opened before and after a shape has ended, hidden and shown again, and loaded again."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, hold=HOLD) as served:
        options = {
            "url": served.url,
            "params": {"secret": SECRET, "table": "item"},
            "chromium": CHROMIUM,
        }
        async with script("tabs.mjs", options) as tabs:
            await does(tabs, open=1)
            await show(conn, tabs, 0)
            await does(tabs, open=1)
            await show(conn, tabs, 0, 1)
            await run_all(conn, "insert into item values (3, 'three')")
            await show(conn, tabs, 0, 1)
            served.engine.drop_all("the test says so")
            await run_all(conn, "delete from item where id = 1")
            await show(conn, tabs, 0, 1)
            await does(tabs, open=1)  # it knows which handle has ended
            await show(conn, tabs, 0, 1, 2)
            await does(tabs, hide=0)
            before = {(each["id"], each["title"]) for each in tabs.shown[-1] if each["tab"] == 0}
            await asyncio.sleep(HOLD)  # the request that it made last
            asked, seen = await does(tabs, count=0), await does(tabs, count=1)
            await run_all(conn, "update item set title = 'changed'")
            now = await rows(conn, "select id, title from item")
            old = [{"tab": 0, "id": i, "title": t} for i, t in before]
            await tabs.until(
                [*old, *({"tab": n, "id": i, "title": t} for n in (1, 2) for i, t in now)]
            )
            await asyncio.sleep(5 * HOLD)
            assert await does(tabs, count=0) == asked  # a hidden tab asks nothing
            assert await does(tabs, count=1) != seen
            await does(tabs, show=0)
            await show(conn, tabs, 0, 1, 2)
            await does(tabs, hide=1)
            served.engine.drop_all("the test says so")
            await run_all(conn, "delete from item where id = 2")
            await does(tabs, show=1)
            await show(conn, tabs, 0, 1, 2)
            await does(tabs, reload=2)
            await run_all(conn, "insert into item values (9, 'nine')")
            await show(conn, tabs, 0, 1, 2)
