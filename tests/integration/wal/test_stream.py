"""The stream's manners: what is confirmed, who may read, how it ends."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.integration.wal.reading import (
    DEADLINE,
    FREE,
    changes,
    confirmed,
    follow,
    reaches,
    read_all,
    read_to,
    until,
    wal_end,
)
from tests.servers import SETTINGS
from walagent.base import faults
from walagent.domain.change import Begin, Commit, Idle, Item, Relation
from walagent.embedded.server import EmbeddedServer
from walagent.errors import GapError, PreconditionError, SlotBusyError, StreamLostError
from walagent.postgres.lsn import Lsn
from walagent.wal.connection import connect_replication
from walagent.wal.options import StreamOptions, start_command
from walagent.wal.stream import ReplicationStream, open_stream
from walagent.wal.transactions import PgoutputTransactions
from walagent.wal.transport import LibpqTransport

ROWS = "create table rows (id int primary key, t text)"
WIDE = "insert into rows select n, repeat('x', 1000) from generate_series(1, 20000) n"
CONFIRMED = (
    "select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where slot_name = %s"
)


async def ids(conn: AsyncConnection, dsn: str, options: StreamOptions) -> list[object]:
    """The ids of all rows that come."""
    found = changes(await read_all(conn, dsn, options))
    return [change.new and change.new["id"] for change in found]


async def read_for_ever(stream: ReplicationStream, seconds: float = DEADLINE) -> None:
    """Read until something ends it."""
    async with asyncio.timeout(seconds):
        while True:
            await stream.next_batch()


async def test_every_commit_is_a_place_to_go_on_from(conn: AsyncConnection, dsn: str) -> None:
    """Two sessions commit back to back, so that one's end is the other's start."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    async with await AsyncConnection.connect(dsn, autocommit=True) as other:
        for number in range(0, 40, 2):
            await asyncio.gather(
                conn.execute("insert into rows values (%s)", [number]),
                other.execute("insert into rows values (%s)", [number + 1]),
            )
    items = await read_all(conn, dsn, options)
    everything = [change.new and change.new["id"] for change in changes(items)]
    ends = [item.end_lsn for item in items if isinstance(item, Commit)]
    begins = [item.commit_lsn for item in items if isinstance(item, Begin)]
    assert len(everything) == 40
    for done, end in enumerate(ends[:-1], start=1):
        assert await ids(conn, dsn, replace(options, start=end)) == everything[done:]
        assert end <= begins[done]


async def test_what_is_confirmed_does_not_come_again_and_nothing_else_is_lost(
    conn: AsyncConnection, dsn: str
) -> None:
    """Confirmed to the byte: the end LSN of a commit."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    for number in range(10):
        await conn.execute("insert into rows values (%s)", [number])
    end = await wal_end(conn)
    async with open_stream(dsn, options) as stream:
        commits = [item for item in await read_to(stream, end) if isinstance(item, Commit)]
        stream.confirm(commits[3].end_lsn)
        stream.confirm(commits[1].end_lsn)
    assert await confirmed(conn, options.slot) == commits[3].end_lsn
    assert await ids(conn, dsn, options) == [4, 5, 6, 7, 8, 9]


async def test_a_future_position_is_never_confirmed(conn: AsyncConnection, dsn: str) -> None:
    """The server would believe it, and skip what comes."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    await conn.execute("insert into rows values (1)")
    end = await wal_end(conn)
    async with open_stream(dsn, options) as stream:
        await read_to(stream, end)
        stream.confirm(Lsn(end + 2**30))
        assert stream.confirmed == stream.received
    await conn.execute("insert into rows values (2)")
    assert await ids(conn, dsn, options) == [2]


async def test_a_confirmation_reaches_the_server_at_once(conn: AsyncConnection, dsn: str) -> None:
    """Not only with the next tick of the timer."""
    await conn.execute(ROWS)
    options = replace(await follow(conn, dsn, "rows"), sender_timeout=60)
    await conn.execute("insert into rows values (1)")
    end = await wal_end(conn)
    async with open_stream(dsn, options) as stream:
        last = (await read_to(stream, end))[-1]
        assert isinstance(last, Commit)
        start = time.monotonic()
        stream.confirm(last.end_lsn)
        await until(conn, CONFIRMED, str(last.end_lsn), options.slot)
        assert time.monotonic() - start < 2


async def test_idle_positions_let_the_server_forget_what_nobody_follows(
    conn: AsyncConnection, dsn: str
) -> None:
    """Traffic in other tables moves the slot, by keepalives alone."""
    await conn.execute(f"{ROWS}; create table busy (id int)")
    options = await follow(conn, dsn, "rows")
    async with open_stream(dsn, options) as stream:
        await conn.execute("insert into busy select generate_series(1, 10000)")
        end = await wal_end(conn)
        async with asyncio.timeout(DEADLINE):
            async for item in stream:
                assert isinstance(item, Idle)
                stream.confirm(item.wal_end)
                if item.wal_end >= end:
                    break
        await until(conn, CONFIRMED, str(end), options.slot)


@pytest.mark.slow
async def test_a_consumer_that_takes_long_keeps_its_stream(conn: AsyncConnection, dsn: str) -> None:
    """Status goes out on a timer of its own, longer than the server's patience."""
    await conn.execute(ROWS)
    options = replace(await follow(conn, dsn, "rows"), sender_timeout=0.5)
    async with open_stream(dsn, options) as stream:
        await stream.next_batch()
        await asyncio.sleep(2)  # stands for the consumer's work, four times the time-out
        await conn.execute("insert into rows values (1)")
        items = await read_to(stream, await wal_end(conn))
        assert len(changes(items)) == 1


@pytest.mark.slow
async def test_a_silent_database_keeps_its_stream(conn: AsyncConnection, dsn: str) -> None:
    """Nothing happens for several time-outs, and then something does."""
    await conn.execute(ROWS)
    options = replace(await follow(conn, dsn, "rows"), sender_timeout=0.4)
    async with open_stream(dsn, options) as stream:
        with pytest.raises(TimeoutError):
            await read_for_ever(stream, seconds=2)
        await conn.execute("insert into rows values (1)")
        assert len(changes(await read_to(stream, await wal_end(conn)))) == 1


async def test_a_second_reader_learns_that_the_slot_is_busy(
    conn: AsyncConnection, dsn: str
) -> None:
    """And gets it as soon as the first one leaves."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    async with open_stream(dsn, options):
        with pytest.raises(SlotBusyError):
            async with open_stream(dsn, options):
                pass
    async with open_stream(dsn, options) as stream:
        assert await stream.next_batch()


async def test_a_frozen_reader_loses_the_slot(conn: AsyncConnection, dsn: str) -> None:
    """A standby need not wait longer than the session's own time-out."""
    await conn.execute(ROWS)
    options = replace(await follow(conn, dsn, "rows"), sender_timeout=1)
    async with open_stream(dsn, options):
        start = time.monotonic()
        query = "select active from pg_replication_slots where slot_name = %s"
        while True:  # the loop stands still meanwhile, as in a stopped process
            time.sleep(0.1)  # noqa: ASYNC251 - a process that stands still is the point
            with psycopg.connect(dsn) as sync:
                row = sync.execute(query, [options.slot]).fetchone()
            if row == (False,):
                break
            assert time.monotonic() - start < DEADLINE


@pytest.mark.slow
async def test_a_buffer_that_nobody_empties_gives_the_slot_back(
    conn: AsyncConnection, dsn: str
) -> None:
    """An unread socket could hold up the server's checkpoints."""
    await conn.execute(ROWS)
    options = replace(await follow(conn, dsn, "rows"), stall_timeout=1, sender_timeout=1)
    await conn.execute(WIDE)
    async with open_stream(dsn, options) as stream:
        await until(conn, FREE, options.slot)
        with pytest.raises(StreamLostError, match="no progress"):
            await stream.next_batch()


@pytest.mark.slow
async def test_a_slow_consumer_gets_everything(conn: AsyncConnection, dsn: str) -> None:
    """The buffer fills, reading rests, and goes on where it was."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    await conn.execute(WIDE)
    end, found = await wal_end(conn), list[Item]()
    async with open_stream(dsn, options) as stream:
        while not any(reaches(item, end) for item in found):
            await asyncio.sleep(0.02)  # stands for the consumer's work
            found += await stream.next_batch()
    assert [change.ordinal for change in changes(found)] == list(range(20_000))


async def test_a_terminated_walsender_is_a_lost_stream(conn: AsyncConnection, dsn: str) -> None:
    """Worth a retry; the words are the server's."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    async with open_stream(dsn, options) as stream:
        await stream.next_batch()
        await conn.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots"
            " where slot_name = %s",
            [options.slot],
        )
        with pytest.raises(StreamLostError):
            await read_for_ever(stream)
        with pytest.raises(StreamLostError):
            await stream.next_batch()


async def test_a_slot_that_is_gone_is_a_gap(dsn: str) -> None:
    """Never made again in silence."""
    with pytest.raises(GapError, match="does not exist") as caught:
        async with open_stream(dsn, StreamOptions("never_made", publications=("pub",))):
            pass
    assert "walagent wal resync" in caught.value.hint


async def test_a_login_without_replication_is_refused_with_the_reason(
    conn: AsyncConnection, dsn: str
) -> None:
    """With the statement that helps."""
    await conn.execute(f"create role plain_{os.getpid()} login".encode())
    try:
        plain = make_conninfo(dsn, user=f"plain_{os.getpid()}")
        with pytest.raises(PreconditionError) as caught:
            async with open_stream(plain, StreamOptions("any", publications=("pub",))):
                pass
        assert "ALTER ROLE" in caught.value.hint
    finally:
        await conn.execute(f"drop role plain_{os.getpid()}".encode())


async def test_a_fault_while_reading_reaches_the_consumer(conn: AsyncConnection, dsn: str) -> None:
    """The event loop would only log it, and the stream would stand still."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    await conn.execute("insert into rows values (1)")
    async with open_stream(dsn, options) as stream:
        with faults.armed("frame.received"), pytest.raises(faults.Crash):
            await read_for_ever(stream)
    await until(conn, FREE, options.slot)

    def refuse(table: Relation) -> bool:
        raise LookupError(table.name)

    async with open_stream(dsn, options, wanted=refuse) as stream:
        with pytest.raises(LookupError, match="rows"):
            await read_for_ever(stream)


@pytest.mark.slow
async def test_a_server_that_shuts_down_does_not_wait_for_us() -> None:
    """It waits until all its WAL is confirmed, so idle positions are confirmed at once."""
    with tempfile.TemporaryDirectory(prefix="walagent-test-") as folder:
        server = EmbeddedServer(Path(folder) / "pg", settings=SETTINGS)
        await server.start()
        try:
            dsn = server.dsn()
            async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
                await conn.execute(ROWS)
                options = await follow(conn, dsn, "rows", slot="leaving")
            async with open_stream(dsn, replace(options, sender_timeout=60)) as stream:
                confirming = asyncio.create_task(confirm_idle(stream))
                start = time.monotonic()
                await server.stop()
                assert time.monotonic() - start < 5
                with pytest.raises(StreamLostError):
                    await confirming
        finally:
            await server.stop()


async def confirm_idle(stream: ReplicationStream) -> None:
    """What a consumer with nothing in flight does."""
    async with asyncio.timeout(DEADLINE):
        async for item in stream:
            if isinstance(item, Idle):
                stream.confirm(item.wal_end)


async def test_leaving_is_quick_and_takes_the_last_confirmation_along(
    conn: AsyncConnection, dsn: str
) -> None:
    """The slot is free and at the right place when the block is left."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    await conn.execute("insert into rows values (1)")
    end = await wal_end(conn)
    async with open_stream(dsn, options) as stream:
        last = (await read_to(stream, end))[-1]
        assert isinstance(last, Commit)
        stream.confirm(last.end_lsn)
        start = time.monotonic()
    assert time.monotonic() - start < 1
    assert await confirmed(conn, options.slot) == last.end_lsn


async def test_unwanted_tables_cost_no_decoding_but_count(conn: AsyncConnection, dsn: str) -> None:
    """The ordinals are those that every reader sees."""
    await conn.execute(f"{ROWS}; create table busy (id int)")
    options = await follow(conn, dsn, "rows", "busy")
    async with conn.transaction():
        await conn.execute("insert into busy select generate_series(1, 10)")
        await conn.execute("insert into rows values (1)")
    end = await wal_end(conn)
    async with open_stream(dsn, options, wanted=lambda table: table.name == "rows") as stream:
        (change,) = changes(await read_to(stream, end))
    assert change.ordinal == 10


MEMORY = """
import asyncio, ctypes, resource, sys
from walagent.domain.change import Commit, Idle, Piece
from walagent.postgres.lsn import Lsn
from walagent.wal.options import StreamOptions
from walagent.wal.stream import ReplicationStream, open_stream

async def main(dsn, slot, protocol, end):
    rows, options = 0, StreamOptions(slot, publications=("pub",), protocol=protocol)
    async with open_stream(dsn, options) as stream:
        async for item in stream:
            if isinstance(item, Piece):
                rows += len(item.changes)
            if isinstance(item, Commit) and item.end_lsn >= end:
                break
            if isinstance(item, Idle) and item.wal_end >= end:
                break
    del item
    ctypes.CDLL(None).malloc_trim(0)  # what malloc keeps for later is free, too
    (now,) = (line for line in open("/proc/self/status") if line.startswith("VmRSS:"))
    print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, now.split()[1])

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Lsn.parse(sys.argv[4])))
"""


async def memory(dsn: str, options: StreamOptions, end: Lsn) -> tuple[int, int, int]:
    """Rows read by a process of its own, and the kilobytes that it used at most and at last."""
    words = [dsn, options.slot, str(options.protocol), str(end)]
    path = os.pathsep.join(["src", *sys.path])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", MEMORY, *words),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        async with asyncio.timeout(DEADLINE * 2):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    rows, most, last = out.split()
    return int(rows), int(most), int(last)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("protocol", [1, 2])
async def test_a_large_transaction_does_not_grow_the_reader(
    conn: AsyncConnection, dsn: str, protocol: Literal[1, 2]
) -> None:
    """Three hundred thousand rows take hardly more memory than a thousand."""
    await conn.execute(ROWS)
    small = await follow(conn, dsn, "rows", slot=f"{conn.info.dbname}_small")
    await conn.execute("insert into rows select n, 'x' from generate_series(1, 1000) n")
    small_end = await wal_end(conn)
    await conn.execute(
        "select pg_copy_logical_replication_slot(%s, %s)", [small.slot, f"{small.slot}_large"]
    )
    await conn.execute(
        "insert into rows select n, repeat('x', 100) from generate_series(1001, 300000) n"
    )
    large = replace(small, slot=f"{small.slot}_large", protocol=protocol)
    rows, before, _ = await memory(dsn, replace(small, protocol=protocol), small_end)
    assert rows == 1000
    rows, after, _ = await memory(dsn, large, await wal_end(conn))
    assert rows == 300_000
    assert after < before * 1.2


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("protocol", [1, 2])
async def test_a_large_logical_message_does_not_grow_the_reader(
    conn: AsyncConnection, dsn: str, protocol: Literal[1, 2]
) -> None:
    """Any role may send one of up to 1 GB.  Its content is discarded as it arrives, and what comes
    after it is read.
    """
    await conn.execute(ROWS)
    small = await follow(conn, dsn, "rows", slot=f"{conn.info.dbname}_small")
    await conn.execute(
        "select pg_copy_logical_replication_slot(%s, %s)", [small.slot, f"{small.slot}_large"]
    )
    await conn.execute("insert into rows values (1, 'x')")
    end = await wal_end(conn)
    for transactional in (True, False):
        async with conn.transaction():
            await conn.execute(
                "select pg_logical_emit_message(%s, 'any', repeat('x', 100000000))",
                [transactional],
            )
            await conn.execute("insert into rows values (%s, 'x')", [3 + transactional])
    _, before, _ = await memory(dsn, replace(small, protocol=protocol), end)
    large = replace(small, slot=f"{small.slot}_large", protocol=protocol)
    rows, after, _ = await memory(dsn, large, await wal_end(conn))
    assert rows == 3
    assert after < before + 20_000  # kilobytes


@pytest.mark.slow
async def test_the_memory_of_a_large_value_is_freed(conn: AsyncConnection, dsn: str) -> None:
    """It is needed while the row is decoded, and no longer."""
    await conn.execute(ROWS)
    small = await follow(conn, dsn, "rows", slot=f"{conn.info.dbname}_small")
    await conn.execute(
        "select pg_copy_logical_replication_slot(%s, %s)", [small.slot, f"{small.slot}_large"]
    )
    await conn.execute("insert into rows values (1, 'x')")
    _, _, before = await memory(dsn, small, await wal_end(conn))
    await conn.execute("insert into rows values (2, repeat('x', 60000000))")
    await conn.execute("insert into rows select n, 'x' from generate_series(3, 1000) n")
    large = replace(small, slot=f"{small.slot}_large")
    rows, most, last = await memory(dsn, large, await wal_end(conn))
    assert rows == 1000
    assert most > before + 60_000
    assert last < before + 20_000


async def test_libpq_reads_the_same_as_the_socket(conn: AsyncConnection, dsn: str) -> None:
    """Which encrypted connections need."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    for transactional in (True, False):
        async with conn.transaction():
            await conn.execute(
                "select pg_logical_emit_message(%s, 'any', repeat('x', 100000))", [transactional]
            )
            await conn.execute(
                "insert into rows select n, repeat('x', 100)"
                " from generate_series(%s::int, %s::int) n",
                [1 + 500 * transactional, 500 + 500 * transactional],
            )
    await conn.execute("insert into rows values (0, repeat('x', 1000000))")
    end = await wal_end(conn)
    items = await read_all(conn, dsn, options)
    await until(conn, FREE, options.slot)
    replication = await connect_replication(dsn)
    try:
        await replication.execute(start_command(options).encode())
        transport = LibpqTransport(replication.pgconn)
        stream = ReplicationStream(transport, options, PgoutputTransactions(lambda _: True))
        found = await read_to(stream, end)
        await stream.close()
    finally:
        await replication.close()
    assert changes(found) == changes(items)
    assert len(changes(items)) == 1001


async def test_protocol_2_tells_the_same_as_protocol_1(conn: AsyncConnection, dsn: str) -> None:
    """Also when transactions are streamed while others commit, and savepoints are rolled back."""
    await conn.execute(ROWS)
    options = await follow(conn, dsn, "rows")
    async with await AsyncConnection.connect(dsn, autocommit=True) as other:
        await other.execute("set logical_decoding_work_mem = '64kB'")
        async with conn.transaction():
            await conn.execute("insert into rows select n, 'a' from generate_series(1, 5000) n")
            await other.execute("insert into rows values (-1)")
            async with conn.transaction(force_rollback=True):
                await conn.execute("insert into rows select n from generate_series(6000, 9000) n")
            await conn.execute("select pg_logical_emit_message(true, 'walagent', 'tag')")
            await conn.execute("alter table rows add x int")
            await conn.execute("insert into rows select n from generate_series(6000, 9000) n")
        async with conn.transaction(force_rollback=True):
            await conn.execute("insert into rows select n from generate_series(10000, 15000) n")
        await other.execute("insert into rows values (-2)")
    little = make_conninfo(dsn, options="-c logical_decoding_work_mem=64kB")
    plain = await read_all(conn, little, options)
    streamed = await read_all(conn, little, replace(options, protocol=2))
    assert changes(plain) == changes(streamed)
    assert marks(plain) == marks(streamed)
    assert len(changes(plain)) == 8003


def marks(items: list[Item]) -> list[Item]:
    """Everything but the changes."""
    return [item for item in items if not hasattr(item, "changes")]


class Proxy:
    """Passes bytes on until it is told to hold its breath."""

    def __init__(self) -> None:
        self.breathing = asyncio.Event()
        self.breathing.set()

    @asynccontextmanager
    async def listen(self, target: Path, at: Path) -> AsyncIterator[None]:
        """Stand at one socket for another."""
        tasks = set[asyncio.Task[None]]()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_unix_connection(target)
            both = (self._pass(reader, back), self._pass(there, writer))
            tasks.update(asyncio.create_task(each) for each in both)

        server = await asyncio.start_unix_server(connected, at)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            server.close()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self.breathing.wait()
                sink.write(data)
                await sink.drain()
        finally:
            sink.close()


@pytest.mark.slow
async def test_a_server_that_does_not_answer_is_given_up(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The connection stands, but nothing comes through it: asked, waited, given up."""
    await conn.execute(ROWS)
    options = replace(await follow(conn, dsn, "rows"), sender_timeout=2)
    folder = str(conninfo_to_dict(dsn)["host"])
    target = Path(folder) / f".s.PGSQL.{conninfo_to_dict(dsn).get('port', 5432)}"
    proxy = Proxy()
    async with proxy.listen(target, tmp_path / ".s.PGSQL.5432"):
        through = make_conninfo(dsn, host=str(tmp_path), port=5432)
        async with open_stream(through, options) as stream:
            await stream.next_batch()
            proxy.breathing.clear()
            with pytest.raises(StreamLostError, match="no response"):
                await read_for_ever(stream)
