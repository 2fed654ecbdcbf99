"""The public client of the protocol, unmodified, in Node; `make web-test` installs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from psycopg import AsyncConnection

from tests.helpers.cutting import cutting
from tests.helpers.database import run_all, until
from tests.helpers.node import Script, needs_node, script
from tests.helpers.people import person
from tests.helpers.shapes import SECRET, Served, serving
from tests.helpers.sync_process import sync_process
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.query import NamedQuery

pytestmark = [pytest.mark.web, needs_node]
MINE, OURS = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2))
TITLES = NamedQuery("titles", "select title from agent.thread", ("title",))
TABLE = """
create table item (
    id bigint primary key, title text, n integer, done boolean not null default false
);
insert into item values (1, 'one', 1, true), (2, null, 20, false);
"""


class _Address(Protocol):
    @property
    def url(self) -> str: ...


@asynccontextmanager
async def following(
    served: _Address, *, sse: bool = False, **params: object
) -> AsyncIterator[Script]:
    """Start a client."""
    given = {
        "url": served.url,
        "liveSse": sse,
        "params": {"secret": SECRET, "table": "item", **params},
    }
    async with script("follow.mjs", given) as client:
        yield client


@pytest.fixture
async def slot(conn: AsyncConnection, dsn: str) -> None:
    """A slot, and a table with two rows."""
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))


def row(key: int, title: str | None, n: int | None, *, done: bool) -> dict[str, Any]:
    """A row as the client parses it."""
    return {"id": f"{key}n", "title": title, "n": n, "done": done}


ONE, TWO = row(1, "one", 1, done=True), row(2, None, 20, done=False)


@pytest.mark.usefixtures("slot")
@pytest.mark.parametrize("sse", [False, True], ids=["long-poll", "sse"])
async def test_the_client_has_the_rows_of_the_table(
    conn: AsyncConnection,
    dsn: str,
    sse: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """At first, and after each kind of change, also a changed key and a truncation."""
    async with serving(conn, dsn) as served, following(served, sse=sse) as client:
        await client.until([ONE, TWO])
        await run_all(conn, "insert into item values (3, 'three', null, true)")
        await client.until([ONE, TWO, row(3, "three", None, done=True)])
        await run_all(
            conn, "update item set title = 'two' where id = 2; delete from item where id = 3"
        )
        await client.until([ONE, row(2, "two", 20, done=False)])
        await run_all(conn, "update item set id = 30 where id = 2")
        await client.until([ONE, row(30, "two", 20, done=False)])
        await run_all(conn, "truncate item")
        await run_all(conn, "insert into item values (4, 'four', 4, false)")
        await client.until([row(4, "four", 4, done=False)])


@pytest.mark.usefixtures("slot")
async def test_rows_move_in_and_out(conn: AsyncConnection, dsn: str) -> None:
    """A where clause with a parameter."""
    async with (
        serving(conn, dsn) as served,
        following(served, where="n > $1 and not done", params={"1": "10"}) as client,
    ):
        await client.until([TWO])
        await run_all(conn, "update item set n = 11, done = false where id = 1")
        await client.until([row(1, "one", 11, done=False), TWO])
        await run_all(conn, "update item set done = true where id = 2")
        await client.until([row(1, "one", 11, done=False)])


@pytest.mark.usefixtures("slot")
@pytest.mark.parametrize("sse", [False, True], ids=["long-poll", "sse"])
async def test_rows_of_a_principal_move_in_and_out(
    conn: AsyncConnection,
    dsn: str,
    sse: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A named shape: threads that a person joins and leaves, and nothing of others."""
    ann, bob = [await person(conn, name) for name in ("ann", "bob")]
    async with serving(conn, dsn, queries={"titles": TITLES}) as served:
        shape = {"url": f"{served.url}s/titles", "liveSse": sse}
        headers = {"Authorization": f"Bearer {ann}"}
        async with script("follow.mjs", {**shape, "headers": headers}) as client:
            await client.until([])
            for token, title, identifier in ((ann, "mine", MINE), (bob, "of bob", OURS)):
                await does(served, token, "open_thread", title=title, members="", id=identifier)
            await client.until([{"title": "mine"}])
            await does(served, bob, "add_member", thread=OURS, name="ann")
            await client.until([{"title": "mine"}, {"title": "of bob"}])
            await does(served, bob, "rename_thread", thread=OURS, title="ours")
            await client.until([{"title": "mine"}, {"title": "ours"}])
            await does(served, bob, "remove_member", thread=OURS, name="ann")
            await client.until([{"title": "mine"}])
            await does(served, bob, "rename_thread", thread=OURS, title="a secret")
            await does(served, ann, "rename_thread", thread=MINE, title="still mine")
            await client.until([{"title": "still mine"}])
        assert not any(each["title"] == "a secret" for rows in client.shown for each in rows)


async def does(served: Served, token: str, name: str, /, **values: str) -> None:
    """Write as a person."""
    answer = await served.mutate(token, f"console.{name}", **values)
    assert answer.status_code == 200, answer.text


@pytest.mark.usefixtures("slot")
async def test_a_client_outlives_the_server(conn: AsyncConnection, dsn: str) -> None:
    """It reconnects to the next one, which does not know its handle."""
    async with serving(conn, dsn, port=0) as served, following(served) as client:
        await client.until([ONE, TWO])
        port = served.port
        await served.stop()
        await until(
            conn,
            "select not active from pg_replication_slots where slot_name = %s",
            conn.info.dbname,
        )
        await run_all(conn, "delete from item where id = 1")
        async with serving(conn, dsn, port=port):
            await client.until([TWO])


@pytest.mark.usefixtures("slot")
async def test_what_is_refused_reaches_the_client(conn: AsyncConnection, dsn: str) -> None:
    """With the protocol's status."""
    async with serving(conn, dsn) as served, following(served, where="pg_sleep(1) = 1") as client:
        found = await client.line()
        assert found["status"] == 400
        assert "pg_sleep" in found["error"]


@dataclass(frozen=True, slots=True)
class _Balancer:
    url: str


@pytest.mark.few(1)
@pytest.mark.parametrize("sse", [False, True], ids=["long-poll", "sse"])
async def test_a_client_outlives_its_process(
    conn: AsyncConnection,
    dsn: str,
    tmp_path: Path,
    sse: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Of two behind a balancer, one is killed: the client fetches again from the other."""
    await run_all(conn, TABLE)
    async with (
        sync_process(dsn, tmp_path) as one,
        sync_process(dsn, tmp_path) as other,
        cutting(one.port, []) as balancer,
        following(_Balancer(f"http://127.0.0.1:{balancer.port}/v1/shape"), sse=sse) as client,
    ):
        await client.until([ONE, TWO])
        await run_all(conn, "update item set title = 'two' where id = 2")
        await client.until([ONE, row(2, "two", 20, done=False)])
        await run_all(conn, "delete from item where id = 1")
        await client.until([row(2, "two", 20, done=False)])
        one.kill()
        balancer.to = other.port
        await run_all(conn, "insert into item values (3, 'three', null, true)")
        rows = [row(2, "two", 20, done=False), row(3, "three", None, done=True)]
        await client.until(rows)
        await run_all(conn, "delete from item where id = 2")
        await client.until(rows[1:])


@pytest.mark.usefixtures("slot")
@pytest.mark.parametrize("sse", [False, True], ids=["long-poll", "sse"])
async def test_rows_move_with_a_sub_select(
    conn: AsyncConnection,
    dsn: str,
    sse: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The client needs no tags for it: they are inserts and deletes."""
    await run_all(conn, "create table list (n integer primary key, owner text)")
    query = {"where": "n in (select n from list where owner = $1)", "params": {"1": "ann"}}
    async with serving(conn, dsn) as served, following(served, sse=sse, **query) as client:
        await client.until([])
        await run_all(conn, "insert into list values (1, 'ann'), (20, 'bob')")
        await client.until([ONE])
        await run_all(conn, "update list set owner = case n when 1 then 'bob' else 'ann' end")
        await client.until([TWO])
        await run_all(conn, "update item set n = 21 where id = 2")
        await client.until([])
