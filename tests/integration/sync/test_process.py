"""`walagent serve sync`: processes of their own, each with a temporary slot."""

import asyncio
import signal
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, column, rows, run_all, until, value
from tests.helpers.owned_table import owned_table
from tests.helpers.shapes import Follower
from tests.helpers.sync_process import SyncProcess, sync_process

TABLE = """
create table item (id bigint primary key, title text);
insert into item values (1, 'one');
insert into agent.principal (tenant, name) values ('default', 'ann');
"""
SLOTS = """
select slot_name from pg_replication_slots where database = current_database() order by 1
"""
REQUESTS = "select count(*) from agent_internal.requested_table where requester like 'slot %%'"


def row(key: int, title: str) -> dict[str, dict[str, str]]:
    """A row as a client has it."""
    return {f'"public"."item"/"{key}"': {"id": str(key), "title": title}}


@pytest.fixture
async def prepared(conn: AsyncConnection, dsn: str) -> None:
    """A table, and a person whose token is its name; nothing has a slot."""
    await run_all(conn, TABLE)
    await conn.execute(
        "insert into agent.token (tenant, principal, digest) values ('default', 'ann', %s)",
        (sha256(b"ann").digest(),),
    )


@pytest.fixture
async def process(dsn: str, prepared: None, tmp_path: Path) -> AsyncIterator[SyncProcess]:
    """A process that streams."""
    async with sync_process(dsn, tmp_path) as found:
        yield found


@pytest.mark.slow
async def test_a_client_follows_a_table(conn: AsyncConnection, process: SyncProcess) -> None:
    """Without walagent run, from a temporary slot; SIGTERM ends all of it."""
    client = Follower(process, table="item")
    await client.until(row(1, "one"))
    await run_all(conn, "insert into item values (2, 'two')")
    await client.until(row(1, "one") | row(2, "two"))
    await run_all(
        conn, "update item set title = 'zwei' where id = 2; delete from item where id = 1"
    )
    await client.until(row(2, "zwei"))
    assert client.refetches == 0
    ((temporary, plugin),) = await rows(
        conn,
        "select temporary, plugin from pg_replication_slots where database = current_database()",
    )
    assert (temporary, plugin) == (True, "pgoutput")
    assert (await process.page("/healthz")).status_code == httpx.codes.OK
    ready = await process.page("/readyz")
    assert ready.status_code == httpx.codes.OK
    assert ready.json()["streaming"] is True
    assert "walagent_slot_retained_bytes" in (await process.page("/metrics")).text
    held = asyncio.create_task(client.step(live=True))
    await asyncio.sleep(0.5)
    process.kill(signal.SIGTERM)
    with pytest.raises(httpx.HTTPStatusError, match="503"):  # ask again, of another
        await held
    code, errors = await process.ended()
    assert code == 0, errors
    assert "Traceback" not in errors
    assert await column(conn, SLOTS) == []
    assert await value(conn, REQUESTS) == 0
    assert await value(
        conn, "select count(*) from pg_publication_tables where tablename = 'item'"
    ) == 0  # fmt: skip


@pytest.mark.slow
async def test_a_principal_follows_a_named_query_and_writes(
    conn: AsyncConnection, process: SyncProcess
) -> None:
    """Tables of walagent, which nothing else has published."""
    client = Follower(process, path="threads", token="ann")
    await client.catch_up()
    assert client.rows == {}
    headers = {"authorization": "Bearer ann", "x-walagent-request": "1"}
    base = f"http://127.0.0.1:{process.port}/v1"
    answer = await process.http.post(
        f"{base}/mutations/open_thread", json={"title": "Lunch"}, headers=headers
    )
    assert answer.status_code == httpx.codes.OK, answer.text
    async with asyncio.timeout(DEADLINE):
        while not client.rows:
            await client.step(live=True)
    assert [each["title"] for each in client.rows.values()] == ["Lunch"]
    txids = [t for message in client.messages for t in message["headers"].get("txids", ())]
    assert int(answer.json()["txid"]) in txids
    once = await process.http.get(f"{base}/queries/threads", headers=headers)
    assert [each["title"] for each in once.json()["rows"]] == ["Lunch"]


@pytest.mark.slow
async def test_a_killed_process_leaves_nothing(
    conn: AsyncConnection, dsn: str, process: SyncProcess, tmp_path: Path
) -> None:
    """No slot, so no WAL is held; another process withdraws what it had requested."""
    client = Follower(process, table="item")
    await client.until(row(1, "one"))
    process.kill()
    await until(
        conn,
        "select not exists (select from pg_replication_slots where database = current_database())",
    )
    assert await value(conn, REQUESTS) == 1
    await run_all(conn, "insert into item values (2, 'two')")
    async with sync_process(dsn, tmp_path) as other:
        client.served = other
        await client.until(row(1, "one") | row(2, "two"))
        assert client.refetches == 1


@pytest.mark.slow
async def test_a_client_moves_between_two_processes(
    conn: AsyncConnection, dsn: str, process: SyncProcess, tmp_path: Path
) -> None:
    """As behind a balancer: the other process does not know the handle, and never guesses."""
    async with sync_process(dsn, tmp_path) as other:
        client, stays = Follower(process, table="item"), Follower(other, table="item")
        expected = row(1, "one")
        for n in range(2, 8):
            await run_all(conn, f"insert into item values ({n}, 'row {n}')")
            expected |= row(n, f"row {n}")
            client.served = other if n % 2 else process
            await client.until(expected)
        await stays.until(expected)
        assert client.refetches == 5
        assert stays.refetches == 0
        slots = await column(conn, SLOTS)
        assert len(slots) == len(set(slots)) == 2


@pytest.mark.slow
async def test_the_end_of_the_connection_ends_the_shapes(
    conn: AsyncConnection, process: SyncProcess
) -> None:
    """What is committed without a slot is not lost: clients fetch again."""
    client, named = Follower(process, table="item"), Follower(process, path="threads", token="ann")
    await client.catch_up()
    await named.catch_up()
    async with conn.transaction():  # the next slot waits for its end
        await run_all(conn, "insert into item values (2, 'two')")
        await run_all(
            conn,
            "select pg_terminate_backend(active_pid, 5000) from pg_replication_slots"
            " where database = current_database()",
        )
        await process.says("reader.waiting")
        refused = await process.get(table="item", offset="-1")
        assert refused.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert refused.headers["retry-after"] == "5"
        unready = await process.page("/readyz")
        assert unready.status_code == httpx.codes.SERVICE_UNAVAILABLE
        await process.says("slot.creation_blocked")
    await process.says("reader.streaming")
    await run_all(conn, "insert into item values (3, 'three')")
    await client.until(row(1, "one") | row(2, "two") | row(3, "three"))
    assert client.refetches == 1
    await named.step(live=True)
    assert named.refetches == 1


@pytest.mark.slow
async def test_a_table_that_leaves_the_publication_is_fetched_again(
    conn: AsyncConnection, process: SyncProcess
) -> None:
    """Another role removed it: what was committed until it is noticed was not sent."""
    client = Follower(process, table="item")
    await client.catch_up()
    other = Follower(process, path="threads", token="ann")
    await other.catch_up()
    await run_all(conn, "alter publication walagent drop table item")
    await run_all(conn, "insert into item values (2, 'two')")
    await client.until(row(1, "one") | row(2, "two"))
    await run_all(conn, "insert into item values (3, 'three')")
    await client.until(row(1, "one") | row(2, "two") | row(3, "three"))
    assert client.refetches == 1
    await other.step(live=True)
    assert other.refetches == 0


SHAPES = """
sync:
  shapes:
    good:
      query: "select id, title from agent.thread where title = %(title)s"
      key: [id]
      parameters: [title]
    table: {query: "select id, n from owned.prices", key: [id]}
    function: {query: "select owned.plain('x') as id", key: [id]}
    wrong: {query: "select id from agent.no_such_table", key: [id]}
log: {format: json}
"""


async def test_shapes_that_cannot_be_served_are_named_at_the_start(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Without a request, and without executing what they use."""
    async with owned_table(conn) as owned:
        async with sync_process(dsn, tmp_path, file=SHAPES) as process:
            refused: dict[str, str] = {}
            while len(refused) < 3:
                refused = {
                    str(each["shape"]): str(each["error"])
                    for each in process.events
                    if each["event"] == "sync.shape_refused"
                }
                if len(refused) < 3:
                    await process.says("sync.shape_refused")
            assert refused.keys() == {"table", "function", "wrong"}
            assert "owned.prices" in refused["table"]
            assert "set run_as" in refused["function"]
            assert "no_such_table" in refused["wrong"]
        assert owned.lines == []
