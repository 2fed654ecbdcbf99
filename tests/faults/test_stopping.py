"""SIGTERM: what is in work ends or is given back, and nobody has to wait for a lease."""

import asyncio
import random
import select
import signal
import time
from pathlib import Path

import pytest
from psycopg.pq import TransactionStatus

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, pause, running, start_writer
from tests.faults.rig.servers import own_server
from tests.faults.rig.stage import Place, make_ready, set_latency
from tests.faults.rig.waiting import connect_again, fetch, until
from walagent.store.sessions.connections import Pool, connect, open_pool

pytestmark = pytest.mark.scenario(18)

ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
ASKING = "select count(*) = 3 from agent.run where state = 'running'"
LEFT = "select count(*) from agent.run where state = 'running'"
STATES = "select state, attempt, count(*) from agent.run group by 1, 2 order by 1, 2"
LOST_ATTEMPTS = "select id, attempt, error, state from agent.run where attempt <> 1"
PATIENT = {"workers": {"lease": 30}}  # on a busy machine a short one runs out while its run goes on
AT_ONCE = 5.0  # seconds; a drain would take 10, the model's answer 60
WRITE = """
with new as (insert into item select n, 1 from generate_series(1, 3) n returning id, version)
insert into written (item, version) select * from new
"""


@pytest.mark.slow
async def test_a_daemon_that_is_stopped_lets_its_runs_end(place: Place) -> None:
    """What models have been asked is waited for, and nothing new is begun."""
    await make_ready(place, latency=0.5)
    with running(Daemon(place)) as daemon:
        await place.conn.execute(WRITE)
        await until(place.conn, ASKING, alive=daemon.is_alive)
        daemon.signal(signal.SIGTERM)
        assert await daemon.ended() == 0
    assert await fetch(place.conn, STATES) == [("succeeded", 1, 3)]
    await all_is_well(place.conn)


@pytest.mark.parametrize("signals", [pytest.param(1, marks=pytest.mark.slow), 2])
async def test_a_daemon_that_cannot_wait_gives_its_runs_back(place: Place, signals: int) -> None:
    """When the time to drain is over, or a second signal comes: as if they had not been begun."""
    await make_ready(place, latency=60)
    drain = 1 if signals == 1 else 10
    with running(Daemon(place, settings={"workers": {"drain": drain}})) as daemon:
        await place.conn.execute(WRITE)
        await until(place.conn, ASKING, alive=daemon.is_alive)
        started = time.monotonic()
        daemon.signal(signal.SIGTERM)
        if signals == 2:
            await daemon.has_said("worker.draining")
            daemon.signal(signal.SIGTERM)
        assert await daemon.ended() == 0
        assert time.monotonic() - started < AT_ONCE
    assert await fetch(place.conn, STATES) == [("pending", 0, 3)]
    set_latency(place, 0)
    with running(Daemon(place)) as daemon:
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "stops"), [(100, 2), pytest.param(3000, 20, marks=pytest.mark.slow)]
)
async def test_a_daemon_that_is_stopped_under_load_leaves_no_lease(
    place: Place, chance: random.Random, changes: int, stops: int
) -> None:
    """The next one finds every run free, whatever the last one was about to do."""
    await make_ready(place)
    with running(start_writer(place, seed=chance.randrange(2**32), changes=changes)) as writer:
        for done in sorted(chance.sample(range(changes), stops)):
            with running(Daemon(place, settings=PATIENT)) as daemon:
                await daemon.has_said("reader.streaming")
                await until(place.conn, ENDED, done, alive=daemon.is_alive, seconds=120)
                await pause(chance.uniform(0, 0.1))
                daemon.signal(signal.SIGTERM)
                assert await daemon.ended() == 0
            assert await fetch(place.conn, LEFT) == [(0,)]
        with running(Daemon(place, settings=PATIENT)) as daemon:
            assert await writer.ended(seconds=120) == 0
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive, seconds=120)
            await all_is_well(place.conn)
    assert await fetch(place.conn, LOST_ATTEMPTS) == []


@pytest.mark.slow
async def test_a_daemon_that_is_stopped_while_its_server_is_away_ends_soon(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """What it cannot give back, a lease gives back later; it does not wait for the server."""
    which = str(request.config.getoption("--server"))
    async with own_server(tmp_path, which) as (server, place):
        await make_ready(place, latency=60)
        with running(Daemon(place, settings={"workers": {"drain": 1}})) as daemon:
            await place.conn.execute(WRITE)
            await until(place.conn, ASKING, alive=daemon.is_alive)
            await server.kill()
            started = time.monotonic()
            daemon.signal(signal.SIGTERM)
            assert await daemon.ended() == 0
            assert time.monotonic() - started < 3 * AT_ONCE
        await server.start()
        set_latency(place, 0)
        async with await connect_again(place.dsn) as conn:
            with running(Daemon(place)) as daemon:
                await until(conn, ALL_ENDED, alive=daemon.is_alive)
                await all_is_well(conn)


TURNS = 6  # of the event loop, in one of which a cancellation meets what was waited for


async def cancel_after(task: asyncio.Task[object], turns: int) -> None:
    """Cancel a task after some turns of the event loop; see that it ends by that."""
    for _ in range(turns):
        await asyncio.sleep(0)
    cancelled = task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() is cancelled


@pytest.mark.parametrize("turns", range(TURNS))
async def test_a_cancellation_that_meets_an_answer_is_not_lost(dsn: str, turns: int) -> None:
    """Who is told to stop stops, also where the server's answer comes in the same moment."""
    async with await connect(dsn) as conn:
        await asyncio.sleep(0)
        task = asyncio.create_task(conn.execute("select 1"))
        while conn.pgconn.transaction_status == TransactionStatus.IDLE:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0)
        select.select([conn.pgconn.socket], [], [])  # the loop stands still until it has come
        await cancel_after(task, turns)


@pytest.mark.parametrize("turns", range(TURNS))
async def test_a_cancellation_that_meets_a_free_connection_is_not_lost(
    dsn: str, turns: int
) -> None:
    """Nor is the connection, which the next one gets."""
    async with open_pool(dsn, size=1, application="walagent test") as pool:
        held = await pool.getconn()
        task = asyncio.create_task(pool.getconn())
        await until_waited_for(pool)
        await pool.putconn(held)
        await cancel_after(task, turns)
        if not task.cancelled():
            await pool.putconn(task.result())
        async with pool.connection(timeout=5) as conn:
            assert conn.info.transaction_status == TransactionStatus.IDLE


async def until_waited_for(pool: Pool) -> None:
    """Wait until somebody waits for a connection."""
    while pool.get_stats()["requests_waiting"] == 0:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(0)
