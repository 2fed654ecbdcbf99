"""One reader, several sinks: what each is given by a real server, and what the server keeps."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, DESK, attach, column, run_all, session, until, value
from tests.helpers.sinks import Disk, Journal
from walagent.app.sinks import DaemonSinks
from walagent.config import Replication
from walagent.config.dsn import Logins, Places
from walagent.domain.change import Piece
from walagent.errors import GapError
from walagent.postgres.lsn import Lsn
from walagent.replication.attempt import Following
from walagent.replication.bootstrap import ensure_slot
from walagent.replication.fan_out import FanOut, Subscription
from walagent.replication.reader import Reader
from walagent.replication.sinks import Opening, SinkSet, Want

TABLE = "support_tickets"
KEYS = "select key from agent.run order by id"
IN_EFFECT = "select exists (select from agent.attachment_version where active_from is not null)"
CONFIRMED = """
select (select confirmed_flush_lsn from pg_replication_slots where slot_name = current_database())
     > (select commit_lsn from agent.run where key = %s)
"""
FREE = "select not active from pg_replication_slots where slot_name = %s"


@asynccontextmanager
async def reading(
    conn: AsyncConnection, dsn: str, *journals: Journal, fan_out: FanOut | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """A reader that feeds these beside what the daemon's feeds."""
    logins, streaming = Logins(Places(dsn, dsn)), asyncio.Event()
    sinks = DaemonSinks(logins.dsn, fan_out=fan_out or FanOut())

    @asynccontextmanager
    async def open_sinks(opening: Opening) -> AsyncGenerator[SinkSet]:
        async with sinks.open(opening) as opened:
            yield SinkSet([*opened.sinks, *journals], opened.start)

    settings = Replication(slot=conn.info.dbname)
    reader = Reader(Following(logins, settings, open_sinks, "test", streaming.set))
    task = asyncio.create_task(reader.run())
    try:
        waiting = asyncio.create_task(streaming.wait())
        await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE)
        waiting.cancel()
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
    await until(conn, FREE, conn.info.dbname)


async def prepared(conn: AsyncConnection, dsn: str) -> Lsn:
    """A slot, and an attachment that is in effect; give where everything begins."""
    await run_all(conn, DESK)
    checkpoint = await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with reading(conn, dsn):
        await attach(conn, "")
        await until(conn, IN_EFFECT)
    return checkpoint.end_lsn


async def insert(conn: AsyncConnection, *numbers: int) -> None:
    """Insert rows, one after the other."""
    for number in numbers:
        await conn.execute(f"insert into {TABLE} (id) values ({number})".encode())


async def ingested(conn: AsyncConnection, count: int) -> None:
    """Wait for as many runs."""
    await until(conn, "select count(*) = %s from agent.run", count)


async def until_true(true: Callable[[], bool]) -> None:
    """Wait for something in this process."""
    async with asyncio.timeout(DEADLINE):
        while not true():  # noqa: ASYNC110 - it is told of nowhere
            await asyncio.sleep(0.01)


async def test_the_slot_is_held_back_by_the_sink_that_has_least(
    conn: AsyncConnection, dsn: str
) -> None:
    """Agents run meanwhile; and after a restart it receives what it had not saved, and they not."""
    await prepared(conn, dsn)
    disk = Disk(Lsn.parse(await value(conn, "select end_lsn::text from agent.checkpoint")))
    slow = Journal(disk, lazy=True, table=TABLE)
    async with reading(conn, dsn, slow):
        await insert(conn, 1, 2)
        await ingested(conn, 2)
        await until_true(lambda: len(slow.seen) >= 2)
        slow.save()
        await insert(conn, 3, 4)
        await ingested(conn, 4)
        await until(conn, CONFIRMED, "2")
        assert not await value(conn, CONFIRMED, "3")
    assert disk.rows == [1, 2]
    async with reading(conn, dsn, Journal(disk, table=TABLE)):
        await insert(conn, 5)
        await until_true(lambda: disk.rows == [1, 2, 3, 4, 5])
        await ingested(conn, 5)
        await until(conn, CONFIRMED, "5")
    assert await column(conn, KEYS) == ["1", "2", "3", "4", "5"]
    assert await column(conn, "select * from agent.broken_invariant") == []


async def test_a_slot_that_is_ahead_of_a_sink_is_a_gap(conn: AsyncConnection, dsn: str) -> None:
    """The server would leave out what lies between, and say nothing."""
    start = await prepared(conn, dsn)
    async with reading(conn, dsn):
        await insert(conn, 1)
        await ingested(conn, 1)
        await until(conn, CONFIRMED, "1")
    forgetful = Journal(Disk(start))
    async with reading(conn, dsn, forgetful) as task:
        with pytest.raises(GapError, match=f"ahead of a sink at {start}"):
            async with asyncio.timeout(DEADLINE):
                await task
    assert forgetful.seen == []
    assert await value(conn, "select reason from agent.gap") is not None


async def test_who_watches_waits_for_no_agent(conn: AsyncConnection, dsn: str) -> None:
    """A change is there as soon as it is read, also while its run cannot be inserted."""
    await prepared(conn, dsn)
    fan_out = FanOut()
    async with session(dsn) as other, reading(conn, dsn, fan_out=fan_out):
        with fan_out.subscribe() as watching:
            async with other.transaction():
                await run_all(other, "lock table agent.run in exclusive mode")
                await insert(conn, 1)
                async with asyncio.timeout(DEADLINE):
                    assert await next_row(watching) == 1
                assert await column(conn, KEYS) == []
            await ingested(conn, 1)


async def next_row(watching: Subscription, table: str = TABLE) -> object:
    """The id of the next row of the table."""
    async for item in watching:
        if isinstance(item, Piece) and item.changes[0].relation.name == table:
            return (item.changes[0].new or {})["id"]
    raise AssertionError


async def test_a_watcher_that_fetches_nothing_holds_nothing_back(
    conn: AsyncConnection, dsn: str
) -> None:
    """Neither runs nor the slot; it has missed what did not fit."""
    await prepared(conn, dsn)
    fan_out = FanOut()
    async with reading(conn, dsn, fan_out=fan_out):
        with fan_out.subscribe(limit=3):
            await insert(conn, *range(1, 20))
            await ingested(conn, 19)
            await until(conn, CONFIRMED, "19")


SENT = """
select count(*) from pg_publication_tables
 where pubname = %s and (schemaname, tablename) = ('public', %s)
"""


async def test_each_sink_is_sent_the_tables_that_it_needs(conn: AsyncConnection, dsn: str) -> None:
    """A watcher of a table without an agent, beside intake: the publications are the union.

    The table leaves its publication with its last watcher; that of the agent stays.
    """
    await prepared(conn, dsn)
    await run_all(conn, "create table watched (id bigint primary key)")
    fan_out = FanOut()
    async with reading(conn, dsn, fan_out=fan_out):
        with fan_out.subscribe({("public", "watched"): Want()}) as watching:
            await until(conn, SENT.replace("count(*)", "count(*) = 1"), "walagent", "watched")
            await run_all(conn, "insert into watched values (7)")
            await insert(conn, 1)
            async with asyncio.timeout(DEADLINE):
                assert await next_row(watching, "watched") == 7
                assert await next_row(watching) == 1
            await ingested(conn, 1)
        await until(conn, SENT.replace("count(*)", "count(*) = 0"), "walagent", "watched")
        assert await column(conn, "select tablename::text from pg_publication_tables"
                            " where schemaname = 'public'") == [TABLE]  # fmt: skip
        await insert(conn, 2)
        await ingested(conn, 2)


@pytest.mark.slow
async def test_a_watched_table_without_identity_is_sent_its_inserts_only(
    conn: AsyncConnection, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """To publish its updates would make those of the application fail; the reader goes on."""
    await prepared(conn, dsn)
    await run_all(conn, "create table plain (id bigint); insert into plain values (1)")
    fan_out, table = FanOut(), ("public", "plain")
    async with reading(conn, dsn, fan_out=fan_out):
        with fan_out.subscribe({table: Want()}):
            async with asyncio.timeout(DEADLINE):
                while "publication.refused" not in caplog.text:  # noqa: ASYNC110 - only the log says
                    await asyncio.sleep(0.02)
            await run_all(conn, "update plain set id = 2")
            await insert(conn, 1)
            await ingested(conn, 1)
        with fan_out.subscribe({table: Want(inserts_only=True)}) as watching:
            await until(conn, SENT.replace("count(*)", "count(*) = 1"), "walagent_inserts", "plain")
            await run_all(conn, "update plain set id = 3; insert into plain values (4)")
            async with asyncio.timeout(DEADLINE):
                assert await next_row(watching, "plain") == 4


async def test_a_watched_table_that_is_not_sent_any_more_is_no_gap(
    conn: AsyncConnection, dsn: str
) -> None:
    """Nobody keeps what a lossy sink misses."""
    await prepared(conn, dsn)
    await run_all(conn, "create table watched (id bigint primary key)")
    fan_out = FanOut()
    async with reading(conn, dsn, fan_out=fan_out):
        with fan_out.subscribe({("public", "watched"): Want()}):
            await until(conn, SENT.replace("count(*)", "count(*) = 1"), "walagent", "watched")
            await run_all(conn, "alter publication walagent drop table watched")
            assert await column(conn, "select agent_internal.publication_trouble()") == []
        await insert(conn, 1)
        await ingested(conn, 1)


async def test_an_agent_and_a_watcher_of_one_table_share_its_publication(
    conn: AsyncConnection, dsn: str
) -> None:
    """It is sent whole while it is watched, and its inserts alone before and after."""
    await prepared(conn, dsn)
    fan_out = FanOut()
    only = SENT.replace("count(*)", "count(*) = 1")
    await until(conn, only, "walagent_inserts", TABLE)
    async with reading(conn, dsn, fan_out=fan_out):
        with fan_out.subscribe({("public", TABLE): Want()}):
            await until(conn, only, "walagent", TABLE)
            await insert(conn, 1)
            await ingested(conn, 1)
        await until(conn, only, "walagent_inserts", TABLE)
        await insert(conn, 2)
        await ingested(conn, 2)
    assert await column(conn, "select agent_internal.publication_trouble()") == []
