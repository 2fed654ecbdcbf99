"""Our side cannot go on, and the server must not suffer for it: its checkpoints, its shutdown."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, free_port, running
from tests.faults.rig.servers import OwnServer, own_server
from tests.faults.rig.stage import ATTACH as ATTACH_ITEM
from tests.faults.rig.stage import Figure, Place, make_ready, set_up
from tests.faults.rig.waiting import connect_again, fetch, until, until_true
from walagent.app.sinks import DaemonSinks
from walagent.config import Replication
from walagent.config.dsn import Logins, Places
from walagent.replication.attempt import Following
from walagent.replication.reader import Reader
from walagent.store.install.migrate import migrate

# Rows that nobody acts on are sent all the same, so they fill what lies between the server and us.
ATTACH = """
select agent.attach('item', 'model=script, tools=[note_change, note_in_python], writes=[status],
    on=[insert], when="new.id < 100", bind=[item=id, version=version], max_attempts=50');
"""
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
FILL = """
insert into item
select n, 1, repeat('x', 1000), 'seen' from generate_series(%s::int, %s::int) n
"""
ACTIVE = "select active from pg_replication_slots where slot_name = %s"
LET_GO = "select not active from pg_replication_slots where slot_name = %s"
INTAKE_WAITS = """
select exists (select from pg_stat_activity
                where datname = current_database() and application_name = 'walagent intake'
                  and wait_event_type = 'Lock')
"""


@asynccontextmanager
async def locked(dsn: str, table: str) -> AsyncIterator[AsyncConnection[Any]]:
    """Hold a table as somebody does who has forgotten a transaction."""
    conn = await AsyncConnection.connect(dsn, application_name="forgetful")
    try:
        await conn.execute(f"lock table {table} in access exclusive mode".encode())
        yield conn
    finally:
        await conn.close()


@pytest.mark.scenario(9)
@pytest.mark.parametrize(
    "table", ["agent.run", pytest.param("agent.checkpoint", marks=pytest.mark.slow)]
)
async def test_a_reader_that_cannot_write_lets_go_of_the_slot(
    place: Place, figure: Figure, table: str
) -> None:
    """It says who holds it up, leaves the slot alone meanwhile, and comes back by itself."""
    await set_up(place)
    settings = {"replication": {"stall_timeout": 1}}
    with running(Daemon(place, settings=settings)) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(ATTACH.encode())
        await daemon.has_said("attachment.activated")
        async with locked(place.dsn, table) as other:
            for number in range(1, 11):
                await place.conn.execute(WRITE, [number])
            await place.conn.execute(FILL, [1000, 20_000])
            waited = await until(place.conn, LET_GO, place.slot, alive=daemon.is_alive)
            figure("stalled reader lets go after 1 s of patience", waited, "s")
            assert waited < 5
            await daemon.has_said("reader.waiting", times=2)
            reasons = [e["error"] for e in daemon.events if e["event"] == "reader.waiting"]
            assert f"PID {other.info.backend_pid} (forgetful)" in reasons[1], reasons
            assert await fetch(place.conn, ACTIVE, place.slot) == [(False,)]
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)


@asynccontextmanager
async def server_on_tcp(folder: Path, which: str) -> AsyncIterator[Place]:
    """A server that is reached as one on another machine is, and that gives up slots early."""
    port = free_port()
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "max_slot_wal_keep_size": "48MB",
    }
    server = OwnServer(folder, which, settings=settings)
    await server.start()
    try:
        async with await AsyncConnection.connect(server.dsn, autocommit=True) as conn:
            await migrate(conn)
            await conn.execute("alter role postgres password 'secret'")
            dsn = make_conninfo(
                host="127.0.0.1", port=port, user="postgres", password="secret", dbname="postgres"
            )
            yield Place(conn, dsn, "walagent", folder)
    finally:
        await server.stop()


LOST = "select wal_status = 'lost' from pg_replication_slots where slot_name = %s"
GAP = "select from_lsn is not null, reason <> '' from agent.gap"


async def longest_checkpoint(place: Place, lost: Callable[[], object]) -> float:
    """Write far more than a slot may keep, and checkpoint all the time, until the slot is lost."""
    longest, wanted = 0.0, asyncio.create_task(write_much(place))
    async with await AsyncConnection.connect(place.dsn, autocommit=True) as conn:
        while not (await fetch(conn, LOST, place.slot))[0][0]:
            lost()
            started = time.monotonic()
            await conn.execute("checkpoint")
            longest = max(longest, time.monotonic() - started)
    await wanted
    return longest


async def write_much(place: Place) -> None:
    """Some 200 MB of rows that are sent to the reader."""
    for number in range(10):
        first = 1000 + number * 15_000
        await place.conn.execute(FILL, [first, first + 14_999])


@pytest.mark.scenario(9)
@pytest.mark.parametrize(
    ("why", "patience"),
    [
        ("locked", 2.0),
        pytest.param("locked", 20.0, marks=pytest.mark.slow),
        pytest.param("hung", 3.0, marks=pytest.mark.slow),
        pytest.param("frozen", 3.0, marks=pytest.mark.slow),
    ],
)
async def test_checkpoints_wait_no_longer_than_our_patience(
    tmp_path: Path, request: pytest.FixtureRequest, figure: Figure, why: str, patience: float
) -> None:
    """Whatever keeps the reader from reading: the checkpoint, its own loop, or its whole
    process.
    """
    settings = {"replication": {"stall_timeout": patience}}
    failpoint = "intake.committed:2:stall" if why == "hung" else ""
    async with server_on_tcp(tmp_path, str(request.config.getoption("--server"))) as place:
        await set_up(place)
        with running(Daemon(place, settings=settings, failpoint=failpoint)) as daemon:
            await daemon.has_said("reader.streaming")
            await place.conn.execute(ATTACH.encode())
            await daemon.has_said("attachment.activated")
            if why == "frozen":
                daemon.signal(signal.SIGSTOP)
            lock = locked(place.dsn, "agent.run") if why == "locked" else nullcontext()
            async with lock:
                await place.conn.execute(WRITE, [1])
                longest = await longest_checkpoint(place, daemon.is_alive)
            figure(f"longest checkpoint, {why}, patience {patience:g} s", longest, "s")
            assert longest < patience + 5
            if why == "locked":
                assert await daemon.ended() == 3
                assert await fetch(place.conn, GAP) == [(True, True)]


@pytest.mark.scenario(9)
async def test_who_locks_the_checkpoint_is_named_also_in_a_quiet_hour(place: Place) -> None:
    """Nothing fills a buffer: one change waits, and after our patience the slot is free."""
    await set_up(place)
    settings = {"replication": {"stall_timeout": 2}}
    with running(Daemon(place, settings=settings)) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(ATTACH.encode())
        await daemon.has_said("attachment.activated")
        async with await AsyncConnection.connect(place.dsn, application_name="psql") as person:
            await person.execute("select * from agent.checkpoint for update")
            await place.conn.execute(WRITE, [1])
            await until(place.conn, LET_GO, place.slot, alive=daemon.is_alive)
            who = f"PID {person.info.backend_pid} (psql) holds"

            async def is_named() -> bool:
                return who in daemon.said

            await until_true(is_named, "who has the lock")
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)


ASKING = "select count(*) = 3 from agent.run where state = 'running'"
SHUTDOWN = 10.0  # seconds


@pytest.mark.scenario(9)
@pytest.mark.parametrize(
    "work",
    [
        "a backlog",
        pytest.param("nothing", marks=pytest.mark.slow),
        pytest.param("model calls", marks=pytest.mark.slow),
    ],
)
async def test_a_server_that_stops_does_not_wait_for_us(
    tmp_path: Path, request: pytest.FixtureRequest, figure: Figure, work: str
) -> None:
    """`pg_ctl stop -m fast` is over in seconds, and what was in work then is done once."""
    async with own_server(tmp_path, str(request.config.getoption("--server"))) as (server, place):
        await set_up(place, latency=2.0 if work == "model calls" else 0.0)
        with running(Daemon(place)) as daemon:
            await daemon.has_said("reader.streaming")
            await place.conn.execute(ATTACH.encode())
            await daemon.has_said("attachment.activated")
            if work == "model calls":
                for number in range(1, 4):
                    await place.conn.execute(WRITE, [number])
                await until(place.conn, ASKING, alive=daemon.is_alive)
                took = await server.stop()
            elif work == "a backlog":
                async with locked(place.dsn, "agent.run"):
                    await place.conn.execute(WRITE, [1])
                    await until(place.conn, INTAKE_WAITS, alive=daemon.is_alive)
                    await place.conn.execute(FILL, [1000, 40_000])
                    took = await server.stop()
            else:
                await place.conn.execute(
                    "create table elsewhere as select generate_series(1, 1000)"
                )
                took = await server.stop()
            figure(f"pg_ctl stop -m fast with {work}", took, "s")
            assert took < SHUTDOWN
            await server.start()
            async with await connect_again(place.dsn) as conn:
                await conn.execute(WRITE, [10])
                await until(conn, ALL_ENDED, alive=daemon.is_alive)
                await all_is_well(conn)


@pytest.mark.slow
@pytest.mark.scenario(9, 18)
async def test_a_lock_on_our_tables_is_no_hang_of_ours(place: Place) -> None:
    """The watchdog must not end a daemon because somebody alters a table."""
    streaming = asyncio.Event()
    logins, settings = Logins(Places(place.dsn, place.dsn)), Replication(slot=place.slot)
    sinks = DaemonSinks(logins.dsn)
    reader = Reader(Following(logins, settings, sinks.open, "reader", streaming.set))
    reading = asyncio.create_task(reader.run())
    try:
        await streaming.wait()
        async with locked(place.dsn, "agent.approval"):
            await until(place.conn, STATUS_WAITS)
            since = time.monotonic()

            async def turned() -> bool:
                return reader.health.turned_at > since

            await until_true(turned, "the reader turns", seconds=20)
            await until_true(turned, "and turns again", seconds=20)
        assert not reading.done()
        assert reader.health.streaming
    finally:
        reading.cancel()
        await asyncio.wait([reading])


STATUS_WAITS = INTAKE_WAITS.replace("walagent intake", "walagent status")


# A suspended process finds every time-out passed when it wakes.
HURRIED = ATTACH_ITEM.replace("max_attempts=50", "max_seconds=2, max_attempts=1")
LATE = """
select bool_and(lease_expires_at < clock_timestamp() - interval '1 second')
  from agent.run where state = 'running'
"""
IN_TRANSACTION = """
select exists (select from pg_stat_activity
                where datname = current_database() and application_name = 'walagent worker'
                  and state = 'idle in transaction')
"""
ATTEMPTS = "select distinct attempt from agent.run"


@asynccontextmanager
async def suspended(place: Place, point: str, attach: str) -> AsyncIterator[Daemon]:
    """A daemon that stands still at *point* of its first run."""
    await make_ready(place, attach=f"update agent.tool set timeout_seconds = 2; {attach}")
    with running(Daemon(place, name="1", failpoint=f"{point}:freeze")) as daemon:

        async def stands_still() -> bool:
            daemon.is_alive()
            return daemon.is_stopped

        await place.conn.execute(WRITE, [1])
        await until_true(stands_still, f"the daemon is suspended at {point}")
        yield daemon


@pytest.mark.scenario(6, 18)
@pytest.mark.parametrize(
    "point",
    [
        "tool.done:1",
        *(
            pytest.param(point, marks=pytest.mark.slow)
            for point in (
                "run.claimed:1",
                "model.asking:1",
                "model.answered:1",
                "tool.started:1",
                "tool.started:2",
                "tool.recorded:1",
                "tool.committed:2",
                "run.finished:1",
            )
        ),
    ],
)
async def test_a_daemon_that_was_suspended_goes_on_where_it_was(place: Place, point: str) -> None:
    """The time in which it stood still is no tool's, no run's, and costs no attempt."""
    async with suspended(place, point, HURRIED) as daemon:
        await until(place.conn, LATE, alive=daemon.is_alive)
        daemon.signal(signal.SIGCONT)
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
        assert await fetch(place.conn, ATTEMPTS) == [(1,)]


@pytest.mark.slow
@pytest.mark.scenario(6, 18)
@pytest.mark.parametrize("point", ["tool.done:1", "tool.recorded:1"])
async def test_a_transaction_that_the_server_ended_meanwhile_is_begun_again(
    place: Place, point: str
) -> None:
    """What was written is rolled back, and the same daemon writes it when it is awake."""
    async with suspended(place, point, HURRIED) as daemon:
        await until(place.conn, f"select not ({IN_TRANSACTION.strip().removeprefix('select')})")
        assert await fetch(place.conn, "select tool from effect") == [("sql",)]
        daemon.signal(signal.SIGCONT)
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
        assert await fetch(place.conn, ATTEMPTS) == [(1,)]


@pytest.mark.slow
@pytest.mark.scenario(6, 18)
async def test_a_run_of_a_suspended_daemon_is_another_workers(place: Place) -> None:
    """It takes over when the server has ended the transaction; who wakes then changes nothing."""
    async with suspended(place, "tool.done:1", ATTACH_ITEM) as first:
        with running(Daemon(place, name="2", command="serve worker")) as second:
            await until(place.conn, ALL_ENDED, alive=second.is_alive)
            ended = await fetch(place.conn, "select * from agent.run")
            first.signal(signal.SIGCONT)
            await first.has_said("run.processed")
            assert await fetch(place.conn, "select * from agent.run") == ended
            assert [e["state"] for e in first.events if e["event"] == "run.processed"] == ["left"]
            await all_is_well(place.conn)
