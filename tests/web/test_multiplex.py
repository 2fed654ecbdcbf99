"""The public client with many shapes over one socket; `make web-test` installs it."""

from hashlib import sha256

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all, until
from tests.helpers.node import needs_node, script
from tests.helpers.shapes import SECRET, Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.query import NamedQuery

pytestmark = [pytest.mark.web, needs_node]
COUNT = 30
THREADS = NamedQuery("threads", "select id, title from agent.thread", ("id",))


def options(served: Served, count: int = COUNT, **more: object) -> dict[str, object]:
    """Options of the program: shapes of one table, each with another condition."""
    where = {"secret": SECRET, "table": "item", "where": "n = $1"}
    socket = served.url.replace("/shape", "/multiplex")
    return {"url": served.url, "socket": socket, "params": where, "count": count, **more}


def counts(**others: int) -> list[dict[str, int]]:
    """How many rows each shape has: none, except for *others*."""
    return [{"shape": n, "rows": others.get(f"n{n}", 0)} for n in range(COUNT)]


@pytest.fixture
async def slot(conn: AsyncConnection, dsn: str) -> None:
    """A slot, and an empty table."""
    await run_all(conn, "create table item (id integer primary key, n integer)")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))


@pytest.mark.usefixtures("slot")
async def test_thirty_shapes_follow_over_one_socket(conn: AsyncConnection, dsn: str) -> None:
    """No live request takes a connection; after a restart, it is one socket again."""
    async with (
        serving(conn, dsn) as served,
        script("multiplexed.mjs", options(served)) as client,
    ):
        await client.until(counts())
        await run_all(conn, "insert into item values (1, 0), (2, 7), (3, 7)")
        await client.until(counts(n0=1, n7=2))
        client.send(used=True)
        assert await client.find("used") == {"sockets": 1, "fetched": 0}
        port = served.port
        await served.stop()
        await until(
            conn,
            "select not active from pg_replication_slots where slot_name = %s",
            conn.info.dbname,
        )
        await run_all(conn, "delete from item where id = 3")
        async with serving(conn, dsn, port=port):
            await client.until(counts(n0=1, n7=1))
            await run_all(conn, "insert into item values (4, 29)")
            await client.until(counts(n0=1, n7=1, n29=1))


async def test_a_token_of_a_header_is_that_of_the_socket(conn: AsyncConnection, dsn: str) -> None:
    """Each principal has its rows."""
    await run_all(
        conn,
        "insert into agent.tenant (name) values ('a');"
        "insert into agent.principal (tenant, name) values ('a', 'ann'), ('a', 'amy')",
    )
    for name in ("ann", "amy"):
        await conn.execute(
            "insert into agent.token (tenant, principal, digest) values ('a', %s, %s)",
            (name, sha256(name.encode()).digest()),
        )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, queries={"threads": THREADS}) as served:
        given = {"count": 2, "token": "ann", "params": {}, "url": f"{served.url}s/threads"}
        async with script("multiplexed.mjs", options(served) | given) as client:
            await client.until([{"shape": n, "rows": 0} for n in range(2)])
            for name in ("amy", "ann"):
                async with conn.transaction():
                    await conn.execute("select agent.act_as(%s)", (name,))
                    await conn.execute("select agent.open_thread('x')")
            await client.until([{"shape": n, "rows": 1} for n in range(2)])
            client.send(used=True)
            assert await client.find("used") == {"sockets": 1, "fetched": 0}


@pytest.mark.usefixtures("slot")
async def test_without_a_socket_requests_are_fetched(conn: AsyncConnection, dsn: str) -> None:
    """As behind a proxy that lets none through."""
    async with serving(conn, dsn) as served:
        given = options(served, 2, socket=f"http://127.0.0.1:{served.port}/v1/none")
        async with script("multiplexed.mjs", given) as client:
            await client.until(counts()[:2])
            await run_all(conn, "insert into item values (1, 0)")
            await client.until(counts(n0=1)[:2])
            client.send(used=True)
            assert (await client.find("used"))["fetched"] > 0
