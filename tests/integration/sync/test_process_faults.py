"""`walagent sync` when the server restarts, the slot retains too much, or a client stands still."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.conftest import SEED
from tests.faults.rig.servers import OwnServer, own_server
from tests.helpers.burn import note_migrations
from tests.helpers.database import DEADLINE, rows, run_all, until, value
from tests.helpers.shapes import SECRET, Follower
from tests.helpers.sync_process import FILE, starting, sync_process

TABLE = "create table item (id bigint primary key, title text)"
END = """
select pg_terminate_backend(active_pid, 5000)
  from pg_replication_slots where database = current_database() and temporary
"""
NOISE = "insert into noise select repeat(md5(n::text), 30) from generate_series(1, 1000) n"
Rows = Mapping[str, Mapping[str, str]]


async def present(conn: AsyncConnection) -> Rows:
    """The rows of the table, as a client has them."""
    found = await rows(conn, "select id::text, title from item")
    return {f'"public"."item"/"{key}"': {"id": key, "title": title} for key, title in found}


async def follow(client: Follower) -> None:
    """Follow as the public client does: a 5xx or a lost connection is tried again."""
    while True:
        try:
            await client.step(live=client.is_up_to_date)
        except (httpx.HTTPStatusError, httpx.TransportError):
            await asyncio.sleep(0.1)


@pytest.fixture
async def own(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[OwnServer, AsyncConnection]]:
    """A server of the test, with a table."""
    which = str(request.config.getoption("--server"))
    async with own_server(tmp_path, which) as (server, place):
        await run_all(place.conn, TABLE)
        yield server, place.conn


@pytest.mark.parametrize("kind", ["stop", "kill"])
async def test_a_server_that_restarts_ends_the_shapes(
    own: tuple[OwnServer, AsyncConnection], kind: str, tmp_path: Path
) -> None:
    """Its temporary slots are gone; the process connects again, and clients fetch again."""
    server, conn = own
    async with sync_process(server.dsn, tmp_path) as process:
        client = Follower(process, table="item")
        await run_all(conn, "insert into item values (1, 'one')")
        await client.until(await present(conn))
        await (server.stop() if kind == "stop" else server.kill())
        await process.says("reader.waiting")
        unready = await process.page("/readyz")
        assert unready.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert (await process.page("/healthz")).status_code == httpx.codes.OK
        await server.start()
        async with await AsyncConnection.connect(server.dsn, autocommit=True) as again:
            await run_all(again, "insert into item values (2, 'two')")
            await process.says("reader.streaming")
            await run_all(again, "insert into item values (3, 'three')")
            expected = await present(again)
            following = asyncio.create_task(follow(client))
            async with asyncio.timeout(DEADLINE):
                while client.rows != expected:  # noqa: ASYNC110 - of another task
                    await asyncio.sleep(0.05)
            following.cancel()
        assert client.refetches == 1


async def test_a_process_whose_server_is_away_can_be_stopped(
    own: tuple[OwnServer, AsyncConnection], tmp_path: Path
) -> None:
    """Also before it ever streamed; it waits for nobody."""
    server, _ = own
    dsn = server.dsn
    async with sync_process(dsn, tmp_path) as process:
        await server.stop()
        await process.says("reader.waiting")
        process.kill(signal.SIGTERM)
        code, errors = await process.ended()
        assert code == 0, errors
        assert "Traceback" not in errors
    async with starting(dsn, tmp_path) as process:
        await process.says("daemon.waiting")
        process.kill(signal.SIGTERM)
        assert (await process.ended())[0] in {0, -signal.SIGTERM}


async def test_a_slot_that_retains_too_much_is_dropped(
    own: tuple[OwnServer, AsyncConnection], tmp_path: Path
) -> None:
    """A transaction that stays open holds it back; meanwhile, no WAL is retained for long."""
    server, conn = own
    file = FILE.replace("sync:\n", "sync:\n  max_retained: 4MB\n")
    async with (
        sync_process(server.dsn, tmp_path, file=file) as process,
        await AsyncConnection.connect(server.dsn) as holding,
    ):
        client = Follower(process, table="item")
        await client.catch_up()
        await holding.execute("insert into item values (1, 'one')")
        await run_all(conn, "create table noise (text text)")
        for _ in range(8):
            await conn.execute(NOISE)
        said = await process.says("reader.waiting")
        assert "sync.max_retained" in str(said["error"])
        await run_all(conn, "insert into item values (2, 'two')")
        await holding.commit()
        await process.says("reader.streaming")
        await client.until(await present(conn))
        assert client.refetches == 1


async def test_a_client_that_stands_still_holds_nothing_back(
    own: tuple[OwnServer, AsyncConnection], tmp_path: Path
) -> None:
    """Neither other clients nor WAL: what arrives is confirmed at once."""
    server, conn = own
    async with sync_process(server.dsn, tmp_path) as process:
        client = Follower(process, table="item")
        await client.catch_up()
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port, limit=1024)
        query = f"table=item&secret={SECRET}&offset={client.offset}&handle={client.handle}"
        ask = f"GET /v1/shape?{query}&live=true&live_sse=true HTTP/1.1\r\nhost: localhost\r\n\r\n"
        writer.write(ask.encode())
        await reader.readline()  # and nothing more
        for n in range(20):
            await conn.execute("insert into item values (%s, %s)", (n, f"{n}" * 200_000))
        await client.until(await present(conn))
        written = await value(conn, "select pg_current_wal_lsn()::text")
        await until(
            conn,
            "select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where temporary",
            written,
        )
        writer.close()


@pytest.mark.parametrize("names", ["a", "ab"], ids=["one", "two"])
async def test_no_row_is_lost_or_doubled(
    conn: AsyncConnection, dsn: str, names: str, tmp_path: Path
) -> None:
    """Random transactions, while streams end, and clients move between two processes.

    With one process, the table leaves the publication, too: another process could add it again
    before this one has noticed.

    `Follower` asserts that no row is inserted that it has, and that none is changed that it lacks.
    """
    chance = random.Random(SEED)
    await note_migrations(dsn)
    await run_all(conn, TABLE)
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(sync_process(dsn, tmp_path)) for _ in names]
        clients = [Follower(chance.choice(processes), table="item") for _ in range(4)]
        following = [asyncio.create_task(follow(client)) for client in clients]
        for n in range(200):
            await _write(conn, chance, n)
            match chance.randrange(40):
                case 0:
                    await run_all(conn, END)
                case 1 if len(names) == 1:
                    with suppress(Exception):  # it is not published at the moment
                        await run_all(conn, "alter publication walagent drop table item")
                case 2 | 3 | 4:
                    chance.choice(clients).served = chance.choice(processes)
                case _:
                    pass
            await asyncio.sleep(chance.uniform(0, 0.05))
        expected = await present(conn)
        async with asyncio.timeout(2 * DEADLINE):
            while any(client.rows != expected for client in clients):
                for task in following:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.05)
        for task in following:
            task.cancel()
    assert expected


async def _write(conn: AsyncConnection, chance: random.Random, n: int) -> None:
    async with conn.transaction():
        for _ in range(chance.randint(1, 4)):
            key = chance.randint(1, 12)
            match chance.randrange(4):
                case 0:
                    await conn.execute("delete from item where id = %s", (key,))
                case 1 if not await value(conn, "select count(*) from item where id = %s", 100 + n):
                    await conn.execute("update item set id = %s where id = %s", (100 + n, key))
                case _:
                    await conn.execute(
                        "insert into item values (%s, %s)"
                        " on conflict (id) do update set title = excluded.title",
                        (key, f"{n}"),
                    )
