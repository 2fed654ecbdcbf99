"""Electric collections of TanStack DB under React, unmodified, in Node."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from tests.helpers.cutting import cutting
from tests.helpers.database import rows, run_all, session, until, value
from tests.helpers.node import WEB_TESTS, Script, needs_node, script
from tests.helpers.shapes import SECRET, serving
from tests.servers import SETTINGS
from walagent.config import Replication
from walagent.embedded.identity import find_identity
from walagent.embedded.paths import default_bindir
from walagent.embedded.server import EmbeddedServer
from walagent.http.server import listen
from walagent.replication.bootstrap import ensure_slot
from walagent.store.install.migrate import migrate

pytestmark = [pytest.mark.web, needs_node]
TABLE = """
create table item (id bigint primary key, title text, n integer);
insert into item values (1, 'one', 1), (2, null, 20);
"""
INSERT = "insert into item values"
FREE = "select not active from pg_replication_slots where slot_name = %s"
Rows = Sequence[dict[str, Any]]


@pytest.fixture
async def slot(conn: AsyncConnection, dsn: str) -> None:
    """A slot, and a table with two rows."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))


def row(key: int, title: str | None, n: int | None) -> dict[str, Any]:
    """A row as the page has it."""
    return {"id": key, "title": title, "n": n}


async def table(conn: AsyncConnection) -> Rows:
    """The rows of the table, as the page has them."""
    return [row(*each) for each in await rows(conn, "select id, title, n from item")]


@asynccontextmanager
async def page(
    port: int, mode: str = "long-poll", *, sync: str = "eager", **params: object
) -> AsyncIterator[Script]:
    """A component that shows the table.

    Args:
        mode: how it hears of changes.
        sync: which rows its collection has.
    """
    url = f"http://127.0.0.1:{port}/v1"
    shape = {
        "url": f"{url}/shape",
        "liveSse": mode == "sse",
        "params": {"secret": SECRET, "table": "item", **params},
    }
    options: dict[str, object] = {"shapeOptions": shape, "syncMode": sync}
    if mode == "multiplex":
        options["socket"] = f"{url}/multiplex"
    async with script("collection.mjs", options) as shown:
        yield shown


async def shown(conn: AsyncConnection, statement: str, wanted: Rows | None, *pages: Script) -> None:
    """Run statements, and wait until pages show what is wanted, or the table."""
    await run_all(conn, statement)
    for each in pages:
        await each.until(await table(conn) if wanted is None else wanted)


MODES = pytest.mark.parametrize("mode", ["long-poll", "sse", "multiplex"])


@pytest.mark.few(1)
@pytest.mark.usefixtures("slot")
@MODES
async def test_pages_show_the_table(
    conn: AsyncConnection,
    dsn: str,
    mode: str,
) -> None:
    """Two pages, at first and after each kind of change, one of them a part of the rows."""
    async with (
        serving(conn, dsn) as served,
        page(served.port, mode) as one,
        page(served.port, mode) as two,
        page(served.port, mode, where="n > $1", params={"1": "10"}) as part,
    ):
        both = (one, two)
        await shown(conn, "select", None, *both)
        await part.until([row(2, None, 20)])
        await shown(conn, "insert into item values (3, 'three', null)", None, *both)
        await shown(conn, "update item set title = 'x' where id = 2", None, *both)
        await part.until([row(2, "x", 20)])
        await shown(conn, "update item set id = 30 where id = 2", None, *both)
        await part.until([row(30, "x", 20)])
        await shown(conn, "update item set n = 11 where id = 1", None, *both)
        await part.until([row(1, "one", 11), row(30, "x", 20)])
        await shown(conn, "update item set n = 1 where id = 30", None, *both)
        await part.until([row(1, "one", 11)])
        swapped = "delete from item where id = 1; insert into item values (1, 'again', 99)"
        await shown(conn, f"begin; {swapped}; commit", None, *both)
        await part.until([row(1, "again", 99)])
        await shown(conn, "truncate item; insert into item values (4, 'four', 44)", None, *both)
        await part.until([row(4, "four", 44)])
        await shown(conn, "delete from item", [], *both, part)


@pytest.mark.few(1)
@pytest.mark.usefixtures("slot")
@MODES
async def test_pages_follow_a_table_that_is_altered(
    conn: AsyncConnection,
    dsn: str,
    mode: str,
) -> None:
    """A new column, one that goes, another type: the page has the table's rows."""
    async with serving(conn, dsn) as served, page(served.port, mode) as shows:
        await shows.until(await table(conn))
        await run_all(conn, "alter table item add extra int default 7")
        await run_all(conn, "update item set n = 2 where id = 1")
        both = [row(1, "one", 2) | {"extra": 7}, row(2, None, 20) | {"extra": 7}]
        await shows.until(both)
        await run_all(conn, "alter table item drop title; insert into item values (3, 3, 3)")
        await shows.until([
            {"id": 1, "n": 2, "extra": 7},
            {"id": 2, "n": 20, "extra": 7},
            {"id": 3, "n": 3, "extra": 3},
        ])  # fmt: skip
        await run_all(conn, "alter table item alter n type text; delete from item where id < 3")
        await shows.until([{"id": 3, "n": "3", "extra": 3}])


@pytest.mark.few(1)
@pytest.mark.usefixtures("slot")
@MODES
async def test_a_shape_that_ends_is_fetched_again(
    conn: AsyncConnection,
    dsn: str,
    mode: str,
) -> None:
    """Rows that were deleted meanwhile go."""
    async with serving(conn, dsn) as served, page(served.port, mode) as shows:
        await shows.until(await table(conn))
        for n in range(3):
            served.engine.drop_all("the test says so")
            await run_all(conn, f"delete from item where id = {n}; insert into item values ({n})")
            await shows.until(await table(conn))


@pytest.mark.few(1)
@pytest.mark.usefixtures("slot")
@MODES
async def test_a_connection_can_be_lost_at_every_point(
    conn: AsyncConnection,
    dsn: str,
    mode: str,
) -> None:
    """Within headers, a message, between answers: the page ends with the table's rows."""
    chance = random.Random(random.getrandbits(32))  # repeated by --randomly-seed
    points = [0, 1, 2] + [chance.randrange(3, 3000) for _ in range(40)]
    async with (
        serving(conn, dsn, hold=0.2, stream=0.5) as served,
        cutting(served.port, points) as cutter,
        page(cutter.port, mode) as shows,
        asyncio.timeout(120),
    ):
        n = 10
        while cutter.points:
            n += 1
            statement = chance.choice([
                f"insert into item values ({n}, 'new', {n})",
                f"update item set n = {n} where id = (select min(id) from item)",
                f"update item set id = {n} where id = (select max(id) from item)",
                "delete from item where id = (select min(id) from item)",
                f"insert into item select i, 'many', 1 from generate_series({n}, {n + 20}) i",
            ])  # fmt: skip
            n += 20
            await run_all(conn, statement)
            await asyncio.sleep(0.05)  # changes at some pace, not a wait for something
        await shows.until(await table(conn))
    assert cutter.cuts > 20


@pytest.mark.usefixtures("slot")
@pytest.mark.parametrize("sync", ["on-demand", "progressive"])
async def test_pages_that_load_a_part_follow_the_table(
    conn: AsyncConnection, dsn: str, sync: str
) -> None:
    """Rows come as subsets; each kind of change, must-refetch and a write reach them."""
    async with serving(conn, dsn) as served, page(served.port, sync=sync) as shows:
        await shown(conn, "select", None, shows)
        await shown(conn, "insert into item values (3, 'three', null)", None, shows)
        await shown(conn, "update item set title = 'x' where id = 2", None, shows)
        await shown(conn, "update item set id = 30 where id = 2", None, shows)
        await shown(conn, "delete from item where id = 1", None, shows)
        served.engine.drop_all("the test says so")
        await shown(conn, "insert into item values (4, 'four', 4)", None, shows)
        shows.send(command="insert", row=row(5, "mine", 5))
        await shows.find("write")
        shows.send(txid=await _written(conn, "insert into item values (5, 'mine', 5)"))
        assert await shows.find("persisted") == "insert"
        await shown(conn, "truncate item; insert into item values (6, 'six', 6)", None, shows)


@pytest.mark.usefixtures("slot")
async def test_an_optimistic_write_stays_until_its_change_arrives(
    conn: AsyncConnection, dsn: str
) -> None:
    """Insert, update and delete are kept by their txid; one that is refused goes."""
    async with serving(conn, dsn) as served, page(served.port) as shows, page(served.port) as other:
        start = await table(conn)
        await shows.until(start)
        new = row(3, "mine", 3)
        shows.send(command="insert", row=new)
        await shows.until([*start, new])  # the database does not have it
        shows.send(txid=await _written(conn, "insert into item values (3, 'mine', 3)"))
        assert await shows.find("persisted") == "insert"
        shows.send(command="update", at=3, changes={"title": "changed"})
        await shows.until([*start, new | {"title": "changed"}])
        shows.send(txid=await _written(conn, "update item set title = 'stored' where id = 3"))
        assert await shows.find("persisted") == "update"
        await shows.until([*start, new | {"title": "stored"}])
        was_there = [any(each["id"] == 3 for each in then) for then in shows.shown]
        assert was_there == sorted(was_there)  # once there, it stays
        shows.send(command="delete", at=3)
        await shows.until(start)
        shows.send(txid=await _written(conn, "delete from item where id = 3"))
        assert await shows.find("persisted") == "delete"
        shows.send(command="update", at=1, changes={"n": -1})
        await shows.until([row(1, "one", -1), row(2, None, 20)])
        shows.send(refused="n must be positive")
        assert await shows.find("failed") == "n must be positive"
        shows.send(command="insert", row=row(9, "last", 9))
        shows.send(txid=await _written(conn, "insert into item values (9, 'last', 9)"))
        await other.until([*start, row(9, "last", 9)])


async def _written(conn: AsyncConnection, statement: str, *, wide: bool = True) -> int:
    """Execute a statement; return the ID of its transaction, in 64 or in 32 bits."""
    async with conn.transaction():
        await run_all(conn, statement)
        kind = "text" if wide else "xid::text"
        return int(str(await value(conn, f"select pg_current_xact_id()::{kind}")))


async def test_transaction_ids_of_both_widths_resolve_writes(tmp_path: Path) -> None:
    """On a server whose IDs have wrapped around, they differ."""
    server = EmbeddedServer(tmp_path / "pg", settings=SETTINGS)
    await server.start()
    await server.stop()
    reset = (default_bindir() / "pg_resetwal", "--epoch=3", server.data_dir)
    await asyncio.to_thread(subprocess.run, find_identity().command(*reset), check=True)
    await server.start()
    try:
        async with session(server.dsn()) as conn:
            await migrate(conn)
            await run_all(conn, TABLE)
            await ensure_slot(conn, server.dsn(), Replication(slot=conn.info.dbname))
            async with (
                serving(conn, server.dsn()) as served,
                page(served.port) as shows,
                page(served.port, where="n < 1000") as part,
            ):
                for each in (shows, part):
                    await each.until(await table(conn))
                for n, wide in ((3, True), (4, False)):
                    for each in (shows, part):
                        each.send(command="insert", row=row(n, "mine", n))
                        await each.find("write")
                    number = await _written(conn, f"{INSERT} ({n}, null, {n})", wide=wide)
                    assert (number > 1 << 32) is wide
                    for each in (shows, part):
                        each.send(txid=number)
                        assert await each.find("persisted") == "insert"
                        await each.until(await table(conn))
    finally:
        await server.stop()


FILE = """
replication: {{slot: {slot}}}
http: {{port: {port}}}
sync: {{open: [public.item], secret: SYNC_SECRET}}
"""


@asynccontextmanager
async def daemon(dsn: str, folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """`walagent run` as a process."""
    slot = conninfo_to_dict(dsn)["dbname"]
    (folder / "agents.yaml").write_text(FILE.format(slot=slot, port=port))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "walagent", "run", "--dsn", dsn),
        cwd=folder,
        env=os.environ | {"HOME": str(folder), "SYNC_SECRET": SECRET},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.few(1)
@MODES
async def test_a_daemon_that_is_killed_starts_again(
    conn: AsyncConnection,
    dsn: str,
    tmp_path: Path,
    mode: str,
) -> None:
    """The page has the table's rows, and a write that was under way is resolved."""
    await run_all(conn, TABLE)
    sockets = await listen("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    for each in sockets:
        each.close()
    async with daemon(dsn, tmp_path, port) as first, page(port, mode) as shows:
        await shows.until(await table(conn))
        shows.send(command="insert", row=row(3, "mine", 3))
        await shows.find("write")
        first.kill()
        await first.wait()
        await until(conn, FREE, conn.info.dbname)
        number = await _written(conn, "insert into item values (3, 'mine', 3)")
        await run_all(conn, "delete from item where id = 1")
        shows.send(txid=number)
        async with daemon(dsn, tmp_path, port):
            assert await shows.find("persisted") == "insert"
            await shown(conn, "insert into item values (5)", None, shows)


def test_one_copy_of_the_database_of_a_page_is_installed_here() -> None:
    """Two copies of @tanstack/db do not know each other; the pins are the console's."""
    lock = json.loads((WEB_TESTS / "package-lock.json").read_text())
    copies = [each for each in lock["packages"] if each.endswith("node_modules/@tanstack/db")]
    assert copies == ["node_modules/@tanstack/db"]
    console = json.loads((WEB_TESTS.parents[1] / "web" / "package.json").read_text())
    ours = json.loads((WEB_TESTS / "package.json").read_text())["dependencies"]
    pins = {name: pin for name, pin in console["dependencies"].items() if name.startswith("@")}
    shared = {name: pin for name, pin in pins.items() if name in ours}
    assert len(shared) == 4
    assert shared == {name: ours[name] for name in shared}
