"""`walagent serve sync` when the server restarts, the slot retains too much, or a client rests."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.conftest import SEED
from tests.faults.rig.proxy import REPLICATION, Proxy
from tests.faults.rig.servers import OwnServer, own_server, primary_and_standby, version_of
from tests.helpers.database import DEADLINE, rows, run_all, until, value
from tests.helpers.shapes import SECRET, Follower
from tests.helpers.sync_process import FILE, SyncProcess, starting, sync_process
from walagent.cli.exit_codes import PERSON

TABLE = "create table item (id bigint primary key, title text)"
END = """
select pg_terminate_backend(active_pid, 5000)
  from pg_replication_slots where database = current_database() and temporary
"""
NOISE = "insert into noise select repeat(md5(n::text), 30) from generate_series(1, 1000) n"
IDLE_TIMEOUT = 180000  # since this version the server may drop slots that nobody reads
Rows = Mapping[str, Mapping[str, str]]


async def present(conn: AsyncConnection) -> Rows:
    """The rows of the table, as a client has them."""
    found = await rows(conn, "select id::text, title from item")
    return {row_key(key): {"id": key, "title": title} for key, title in found}


def row_key(key: object) -> str:
    """The key of a row, as a client has it."""
    return f'"public"."item"/"{key}"'


async def follow(client: Follower) -> None:
    """Follow as the public client does: a 5xx or a lost connection is tried again."""
    while True:
        try:
            await client.step(live=client.is_up_to_date)
        except (httpx.HTTPStatusError, httpx.TransportError):
            await asyncio.sleep(0.1)


@pytest.fixture
def which(request: pytest.FixtureRequest) -> str:
    """The server of this session."""
    return str(request.config.getoption("--server"))


@pytest.fixture
async def own(tmp_path: Path, which: str) -> AsyncIterator[tuple[OwnServer, AsyncConnection]]:
    """A server of the test, with a table."""
    async with own_server(tmp_path, which) as (server, place):
        await run_all(place.conn, TABLE)
        yield server, place.conn


@pytest.mark.few(1)
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@asynccontextmanager
async def serving(
    tmp_path: Path, which: str, **settings: str
) -> AsyncIterator[tuple[SyncProcess, Follower, AsyncConnection]]:
    """A server with these settings, a process, and a client that has all rows."""
    async with own_server(tmp_path, which, settings=settings) as (server, place):
        await run_all(place.conn, TABLE)
        async with sync_process(server.dsn, tmp_path) as process:
            client = Follower(process, table="item")
            await client.catch_up()
            yield process, client, place.conn


@pytest.mark.slow
async def test_a_slot_that_the_server_invalidates_is_named(which: str, tmp_path: Path) -> None:
    """A transaction that stays open holds it back, and `max_slot_wal_keep_size` ends it.

    The log says so; the next slot waits for the transaction, and its clients fetch again.
    """
    async with serving(tmp_path, which, max_slot_wal_keep_size="16MB") as (process, client, conn):
        async with await AsyncConnection.connect(conn.info.dsn) as holding:
            await holding.execute("insert into item values (1, 'one')")
            held = asyncio.create_task(client.step(live=True))
            await beyond(conn, 4)
            said = await process.says("reader.waiting")
            assert "max_slot_wal_keep_size" in str(said["error"])
            with pytest.raises(httpx.HTTPStatusError, match="503"):  # ask again
                await held
            assert (await process.page("/readyz")).status_code == httpx.codes.SERVICE_UNAVAILABLE
            await process.says("slot.creation_blocked")
            await beyond(conn, 4)  # the slot that waits is invalidated, too
            said = await process.says("reader.waiting")
            assert "max_slot_wal_keep_size" in str(said["error"])
            await run_all(conn, "insert into item values (2, 'two')")
            await holding.commit()
        await process.says("reader.streaming")
        await run_all(conn, "insert into item values (3, 'three')")
        await client.until(await present(conn))
        assert client.refetches == 1
        ((status, slots),) = await rows(
            conn, "select min(wal_status), count(*) from pg_replication_slots where temporary"
        )
        assert (status, slots) == ("reserved", 1)


async def beyond(conn: AsyncConnection, segments: int) -> None:
    """Write WAL, and let the server remove what no slot may retain."""
    for _ in range(segments):
        await run_all(conn, "select txid_current(), pg_switch_wal()")
    await run_all(conn, "checkpoint")


@pytest.mark.slow
async def test_a_slot_that_streams_is_never_idle(which: str, tmp_path: Path) -> None:
    """`idle_replication_slot_timeout` (18) ends slots that nobody reads, and this one is read."""
    if version_of(which) < IDLE_TIMEOUT:
        settings = dict[str, str]()
    else:
        settings = {"idle_replication_slot_timeout": "1s"}
    async with serving(tmp_path, which, **settings) as (process, client, conn):
        for n in range(4):
            held = asyncio.create_task(client.step(live=True))
            await asyncio.wait({held}, timeout=1.2)  # nothing is committed for longer than that
            await beyond(conn, 1)
            await run_all(conn, f"insert into item values ({n}, 'row {n}')")
            await held
        await client.until(await present(conn))
        assert client.refetches == 0
        assert (await process.page("/readyz")).status_code == httpx.codes.OK


@pytest.mark.slow
async def test_a_promoted_standby_ends_the_shapes(which: str, tmp_path: Path) -> None:
    """Clients forget what only the old primary had committed."""
    async with primary_and_standby(tmp_path, which) as (pair, place):
        await run_all(place.conn, TABLE)
        await run_all(place.conn, "insert into item values (1, 'both')")
        async with sync_process(pair.dsn, tmp_path) as process:
            client = Follower(process, table="item")
            await client.catch_up()
            async with pair.cut_off(place.conn):
                await run_all(place.conn, "insert into item values (2, 'lost')")
                await client.until(await present(place.conn))
                assert len(client.rows) == 2
                await pair.primary.kill()
            await pair.promote()
            await process.says("reader.waiting")
            await process.says("reader.streaming")
            async with await AsyncConnection.connect(pair.dsn, autocommit=True) as again:
                await run_all(again, "insert into item values (3, 'new')")
                following = asyncio.create_task(follow(client))
                async with asyncio.timeout(DEADLINE):
                    while client.rows.keys() != {row_key(1), row_key(3)}:  # noqa: ASYNC110 - of another task
                        await asyncio.sleep(0.05)
                following.cancel()
                assert client.rows == await present(again)
            assert client.refetches == 1


@pytest.mark.slow
@pytest.mark.parametrize("part", [REPLICATION, "walagent sync", ""])
async def test_connections_that_swallow_everything_are_found_out(
    own: tuple[OwnServer, AsyncConnection], part: str, tmp_path: Path
) -> None:
    """Nobody ends them: of the stream, of all that asks the database, or both."""
    server, conn = own
    async with Proxy(server.dsn).listen() as proxy, sync_process(proxy.dsn, tmp_path) as process:
        client = Follower(process, table="item")
        await run_all(conn, "insert into item values (1, 'one')")
        await client.until(await present(conn))
        for link in proxy.of(part) if part else list(proxy.links):
            link.swallow()
        await run_all(conn, "insert into item values (2, 'two')")
        await process.says("reader.waiting")
        await process.says("reader.streaming")
        await run_all(conn, "insert into item values (3, 'three')")
        following, expected = asyncio.create_task(follow(client)), await present(conn)
        async with asyncio.timeout(DEADLINE):
            while client.rows != expected:  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.05)
        following.cancel()
        assert client.refetches == 1


@pytest.mark.slow
async def test_a_stream_of_another_server_is_refused(
    own: tuple[OwnServer, AsyncConnection], which: str, tmp_path: Path
) -> None:
    """Its changes are not those of the rows: clients would have rows that never change."""
    server, _ = own
    (tmp_path / "other").mkdir()
    async with own_server(tmp_path / "other", which) as (other, _):
        options = ("--replication-dsn", other.dsn)
        async with starting(server.dsn, tmp_path, *options) as process:
            code, errors = await process.ended()
            assert code == PERSON, errors
            assert "does not exist on the server of the connection string" in errors


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", ["a", pytest.param("ab", marks=pytest.mark.slow)], ids=["one", "two"]
)
async def test_no_row_is_lost_or_doubled(
    conn: AsyncConnection, dsn: str, names: str, tmp_path: Path
) -> None:
    """Random transactions, while streams end, and clients move between two processes.

    With one process, the table leaves the publication, too: another process could add it again
    before this one has noticed.

    `Follower` asserts that no row is inserted that it has, and that none is changed that it lacks.
    """
    chance = random.Random(SEED)
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
