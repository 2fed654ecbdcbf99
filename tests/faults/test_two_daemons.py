"""Two daemons, one slot: one reads, the other stands by, and never do both write."""

import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, pause, running, start_writer
from tests.faults.rig.stage import ATTACH, Figure, Place, set_up
from tests.faults.rig.waiting import fetch, until, until_true
from walagent.config import Replication
from walagent.errors import StreamLostError
from walagent.replication.bootstrap import ensure_slot
from walagent.replication.source import check_source

pytestmark = pytest.mark.scenario(6)

SETTINGS = {"replication": {"sender_timeout": 1}}  # a frozen reader loses the slot after this
TAKE_OVER = 5.0  # seconds
TOOL = 2  # seconds; a frozen worker keeps the transaction of a tool for a little longer than this
ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
WAITS = """
select exists (select from pg_stat_activity
                where datname = current_database() and application_name = 'walagent intake'
                  and wait_event_type = 'Lock')
"""
SEEN = "select seen_at > %s from agent.worker where name ~ %s"
HELD = "select id from agent.run where state = 'running' and worker ~ %s"
WORKS = "select exists (select from agent.run where worker ~ %s and id > %s)"
TAKEN = "select bool_and(attempt > 1 and worker ~ %s) from agent.run where id = any (%s)"
EPOCH = "select epoch from agent.checkpoint"


def daemon(place: Place, name: str) -> Daemon:
    """One of the two."""
    return Daemon(place, name=name, settings=SETTINGS)


def readings(each: Daemon) -> list[str]:
    """What its reader has logged."""
    return [event["event"] for event in each.events if event["event"].startswith("reader.")]


@asynccontextmanager
async def two(place: Place, *, latency: float = 0.0) -> AsyncIterator[tuple[Daemon, Daemon]]:
    """The daemon that reads, and the one that stands by."""
    await set_up(place, latency=latency)
    with running(daemon(place, "1")) as first:
        await first.has_said("reader.streaming")
        await place.conn.execute("update agent.tool set timeout_seconds = %s", [TOOL])
        await place.conn.execute(ATTACH.encode())
        await first.has_said("attachment.activated")
        with running(daemon(place, "2")) as second:
            await second.has_said("reader.waiting")
            yield first, second


async def epoch(conn: AsyncConnection[Any]) -> int:
    """How often the checkpoint was taken over."""
    return (await fetch(conn, EPOCH))[0][0]


@pytest.mark.slow
async def test_daemons_that_start_at_once_make_one_slot(place: Place) -> None:
    """On a fresh database, too: one makes it, the others find it and stand by."""
    await set_up(place)
    with (
        running(daemon(place, "1")) as first,
        running(daemon(place, "2")) as second,
        running(daemon(place, "3")) as third,
    ):
        three = (first, second, third)

        async def settled() -> bool:
            for each in three:
                each.is_alive()
            return all(readings(each) for each in three)

        await until_true(settled, "one reads, the others stand by")
        assert sorted(readings(each)[0] for each in three) == [
            "reader.streaming",
            "reader.waiting",
            "reader.waiting",
        ]


async def test_a_reader_that_looked_a_moment_too_early_sees_no_gap(place: Place) -> None:
    """Another one moved the checkpoint, then the slot, and left: after our look at the one only."""
    conn, settings = place.conn, Replication(slot=place.slot)
    checkpoint = await ensure_slot(conn, place.dsn, settings)
    await conn.execute("create table elsewhere as select 1")
    await conn.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", [place.slot])
    await conn.execute(
        "update agent.checkpoint set end_lsn = s.confirmed_flush_lsn"
        "  from pg_replication_slots s where s.slot_name = slot"
    )
    with pytest.raises(StreamLostError):
        await check_source(conn, place.dsn, settings, checkpoint)
    assert await fetch(conn, "select * from agent.gap") == []
    fresh = await ensure_slot(conn, place.dsn, settings)
    await check_source(conn, place.dsn, settings, fresh)


@pytest.mark.slow
async def test_a_standby_takes_over_from_a_killed_reader_within_seconds(
    place: Place, chance: random.Random, figure: Figure
) -> None:
    """The slot is free at once, and the standby has been trying."""
    async with two(place) as (first, second):
        with running(start_writer(place, seed=chance.randrange(2**32), changes=300)) as writer:
            await until(place.conn, ENDED, chance.randrange(200), alive=first.is_alive)
            assert second.count("reader.streaming") == 0
            first.kill()
            seconds = await second.has_said("reader.streaming")
            figure("take-over from a killed reader", seconds, "s")
            assert seconds < TAKE_OVER
            assert await writer.ended() == 0
        await until(place.conn, ALL_ENDED, alive=second.is_alive)
        await all_is_well(place.conn)


@pytest.mark.slow
async def test_a_reader_that_was_frozen_writes_nothing_when_it_thaws(place: Place) -> None:
    """Its statement was under way when another took the checkpoint over: the fence takes it
    back.
    """
    async with two(place) as (first, second):
        before = await epoch(place.conn)
        async with (
            await AsyncConnection.connect(place.dsn) as other,
            other.transaction(),
        ):
            await other.execute("lock table agent.run in exclusive mode")
            await place.conn.execute(WRITE, [1])
            await until(place.conn, WAITS)
            first.signal(signal.SIGSTOP)
            await until(place.conn, f"select ({EPOCH}) > %s", before)
            assert await fetch(place.conn, "select count(*) from agent.run") == [(0,)]
        await until(place.conn, "select exists (select from agent.run)", alive=second.is_alive)
        first.signal(signal.SIGCONT)
        await first.has_said("reader.waiting")
        (waiting, *_) = (each for each in first.events if each["event"] == "reader.waiting")
        assert waiting["error"].startswith(("FencedError", "StreamLostError"))
        await place.conn.execute(WRITE, [2])
        await until(place.conn, ALL_ENDED, alive=second.is_alive)
        await all_is_well(place.conn)


@pytest.mark.slow
async def test_a_reader_that_hangs_in_its_transaction_does_not_keep_the_checkpoint(
    place: Place, figure: Figure
) -> None:
    """It has lost the slot, and the server ends what it has written and not committed."""
    await set_up(place)
    stalls = Daemon(
        place, name="1", settings=SETTINGS, failpoint="intake.checkpoint_advanced:1:stall"
    )
    with running(stalls) as first:
        await first.has_said("reader.streaming")
        with running(daemon(place, "2")) as second:
            await second.has_said("reader.waiting")
            await place.conn.execute(ATTACH.encode())
            figure(
                "take-over from a hung reader", await second.has_said("attachment.activated"), "s"
            )
            await place.conn.execute(WRITE, [1])
            await until(place.conn, ALL_ENDED, alive=second.is_alive)
            await all_is_well(place.conn)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [5.0, pytest.param(60.0, marks=pytest.mark.slow)])
async def test_a_daemon_that_was_frozen_under_load_is_nobody_when_it_thaws(
    place: Place, chance: random.Random, figure: Figure, seconds: float
) -> None:
    """Reader and worker have lost slot, checkpoint and leases, and what they held is another's."""
    async with two(place, latency=0.2) as (first, second):
        before = await epoch(place.conn)
        with running(start_writer(place, seed=chance.randrange(2**32), changes=10_000)) as writer:
            await until(place.conn, ENDED, chance.randrange(20, 60), alive=first.is_alive)
            first.signal(signal.SIGSTOP)
            figure("take-over from a frozen reader", await second.has_said("reader.streaming"), "s")
            # Not before: the server still ends what was on its way when the process froze.
            held = {run for (run,) in await fetch(place.conn, HELD, f"-{first.pid}-")}
            await pause(seconds)
            # Before it thaws: what nobody has claimed by then is for both to claim.
            await until(place.conn, TAKEN, f"-{second.pid}-", list(held), alive=second.is_alive)
            first.signal(signal.SIGCONT)
            await first.has_said("reader.waiting")
            await until(place.conn, WORKS, f"-{first.pid}-", max(held), alive=first.is_alive)
            writer.kill()
        await until(place.conn, ALL_ENDED, alive=second.is_alive)
        await all_is_well(place.conn)
        ((reader,),) = await fetch(place.conn, "select reader from agent.checkpoint")
        assert f"-{second.pid}-" in reader
        assert await epoch(place.conn) == before + 1
        assert await fetch(place.conn, TAKEN, f"-{second.pid}-", list(held)) == [(True,)]
        assert first.count("reader.streaming") == 1


@pytest.mark.slow
async def test_a_worker_that_was_frozen_writes_nothing_when_it_thaws(place: Place) -> None:
    """Its leases have run out, and the answer that it comes back with is nobody's any more."""
    async with two(place, latency=0.5) as (first, second):
        for number in range(1, 4):
            await place.conn.execute(WRITE, [number])
        await until(
            place.conn,
            "select count(*) = 3 from agent.run where state = 'running' and worker ~ %s",
            f"-{first.pid}-",
        )
        first.signal(signal.SIGSTOP)
        await until(
            place.conn,
            "select count(*) = 3 from agent.run where attempt = 2 and worker ~ %s",
            f"-{second.pid}-",
        )
        ((thawed,),) = await fetch(place.conn, "select clock_timestamp()")
        first.signal(signal.SIGCONT)
        await until(place.conn, SEEN, thawed, f"-{first.pid}-", alive=first.is_alive)
        await until(place.conn, ALL_ENDED, alive=second.is_alive)
        await all_is_well(place.conn)
        ended = [each["state"] for each in first.events if each["event"] == "run.processed"]
        assert set(ended) <= {"left"}


@pytest.mark.slow
async def test_daemons_that_freeze_in_turns_under_load_cost_nothing(
    place: Place, chance: random.Random
) -> None:
    """Reader and workers change places again and again, and everything happens once."""
    async with two(place) as (first, second):
        with running(start_writer(place, seed=chance.randrange(2**32), changes=3000)) as writer:
            for number in range(10):
                await until(place.conn, ENDED, 280 * number, seconds=120)
                frozen = chance.choice((first, second))
                frozen.signal(signal.SIGSTOP)
                await pause(chance.uniform(0, 4))
                frozen.signal(signal.SIGCONT)
                await pause(chance.uniform(0, 0.5))
            assert await writer.ended(seconds=120) == 0
        await until(place.conn, ALL_ENDED, alive=second.is_alive, seconds=120)
        await all_is_well(place.conn)
