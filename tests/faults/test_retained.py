"""WAL that piles up behind the slot: an alarm, and on request an end to it, never in silence."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.request import urlopen

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.commands import types
from tests.faults.rig.probing import ask
from tests.faults.rig.processes import Daemon, free_port, running
from tests.faults.rig.stage import ATTACH, Figure, Place, make_ready
from tests.faults.rig.waiting import fetch, until, until_true
from walagent.cli.exit_codes import PERSON
from walagent.replication.bootstrap import PUBLICATIONS
from walagent.wal.connection import connect_replication, start_replication
from walagent.wal.options import StreamOptions

pytestmark = pytest.mark.scenario(7)

DATED = "alter table item add column made_at timestamptz not null default now();"
NOTE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
RETAINED = """
select pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
       pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint
  from pg_replication_slots where slot_name = %s
"""
HAS_SLOT = "select from pg_replication_slots where slot_name = %s"
GAP = """
select reason like 'slot %% was given up: it retained %%', from_lsn = p.end_lsn, to_lsn > from_lsn,
       since = p.committed_at
  from agent.gap g join agent.checkpoint p using (slot) where resolved_at is null
"""
LIMIT = {"give_up_bytes": "24 MB", "give_up_after": "1s"}
END_WATCH = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
 where application_name = 'walagent watch' and datname = current_database()
"""
MB = 1 << 20


async def write(place: Place, *items: int) -> None:
    """Insert items, each in a transaction of its own."""
    for item in items:
        await place.conn.execute(NOTE, [item])


async def fill(place: Place, size: int) -> None:
    """Write WAL until the slot has fallen back by *size*."""
    await place.conn.execute("create table if not exists filler (t text)")
    while True:
        ((_, behind),) = await fetch(place.conn, RETAINED, place.slot)
        if behind > size:
            return
        await place.conn.execute(
            "insert into filler select repeat('x', 100) from generate_series(1, 40000);"
            " truncate filler"
        )


@asynccontextmanager
async def locked(place: Place, *tables: str) -> AsyncIterator[AsyncConnection[Any]]:
    """Keep everybody from writing to tables for the time of the block."""
    async with await AsyncConnection.connect(place.dsn) as conn:
        await conn.execute(f"lock table {', '.join(tables)} in exclusive mode".encode())
        yield conn
        await conn.rollback()


@asynccontextmanager
async def stuck(place: Place, *tables: str) -> AsyncIterator[AsyncConnection[Any]]:
    """Let the reader be unable to take changes in, as somebody holds *tables*."""
    async with locked(place, *tables) as conn:
        await write(place, 100)
        yield conn


def daemon(place: Place, replication: dict[str, Any], port: int | None = None) -> Daemon:
    """A daemon with these settings, and health on *port*."""
    http = {} if port is None else {"enabled": True, "port": port}
    return Daemon(place, settings={"replication": replication, "http": http})


async def metric(port: int, name: str) -> float:
    """What /metrics tells of a gauge."""

    def ask() -> float:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        (value,) = (line.split()[1] for line in lines if line.split()[0] == name)
        return float(value)

    return await asyncio.to_thread(ask)


async def test_an_alarm_is_raised_and_cleared_once(place: Place, figure: Figure) -> None:
    """In the log, in a metric and in the body of /readyz, also while nothing can be read."""
    await make_ready(place)
    port, numbers = free_port(), count(101)
    with running(daemon(place, {"alarm_bytes": "24MB"}, port)) as reader:
        await reader.has_said("reader.streaming")
        assert await fetch(place.conn, END_WATCH) == [(1,)]  # it comes back
        async with stuck(place, "agent.run"):
            await fill(place, 32 * MB)
            figure("alarm raised", await reader.has_said("slot.alarm_raised"), "s")
            await fill(place, 48 * MB)
            _, body = await ask(port, "/readyz")
            assert "more than 24 MB (replication.alarm_bytes)" in body["warnings"][0]
            assert body["retained_bytes"] > 24 * MB
            assert await metric(port, "walagent_slot_alarm") == 1
        await until(place.conn, ENDED, 1, alive=reader.is_alive)

        async def cleared() -> bool:
            reader.is_alive()
            # With the one the server needs less; with the other the reader confirms at once.
            await place.conn.execute("checkpoint")
            await write(place, next(numbers))
            return reader.count("slot.alarm_cleared") == 1

        await until_true(cleared, "the alarm is over")
        status, body = await ask(port, "/readyz")
        assert (status, body["warnings"]) == (200, [])
        assert await metric(port, "walagent_slot_alarm") == 0
        assert reader.count("slot.alarm_raised") == 1


@pytest.mark.slow
async def test_a_reader_that_cannot_catch_up_gives_the_slot_up(
    place: Place, figure: Figure
) -> None:
    """Gap first, then the slot; exit code 3; a resync makes it good, each row once."""
    await make_ready(place, attach=DATED + ATTACH)
    with running(daemon(place, LIMIT)) as reader:
        await write(place, 1, 2)
        await until(place.conn, ENDED, 2, alive=reader.is_alive)
        async with stuck(place, "agent.run"):
            await fill(place, 32 * MB)
            await write(place, 3, 4)
            figure("given up after", await until_ended(reader), "s")
        assert reader.count("slot.given_up") == 1
        assert "walagent wal resync" in reader.said
    assert await fetch(place.conn, HAS_SLOT, place.slot) == []
    assert await fetch(place.conn, GAP) == [(True, True, True, True)]
    with running(Daemon(place, name="-after")) as after:
        assert await after.ended() == PERSON
        assert "was given up at" in after.said
    assert await fetch(place.conn, "select count(*) from agent.gap") == [(1,)]
    (await types(place, "wal", "resync", "--default", "since:made_at", "--yes")).worked()
    with running(Daemon(place, name="-again")) as again:
        await write(place, 5)
        await until(place.conn, ENDED, 6, alive=again.is_alive)
    runs = "select key, reason from agent.run order by key::bigint"
    assert await fetch(place.conn, runs) == [
        ("1", "change"),
        ("2", "change"),
        ("3", "backfill"),
        ("4", "backfill"),
        ("5", "change"),
        ("100", "backfill"),
    ]
    assert (await types(place, "wal", "check")).worked().out == ""


async def until_ended(reader: Daemon) -> float:
    """Wait until a daemon has ended with 3; return the seconds that it took."""

    async def over() -> bool:
        return reader.has_ended

    seconds = await until_true(over, "the daemon ends")
    assert await reader.ended() == PERSON
    return seconds


@pytest.mark.slow
async def test_a_slot_is_kept_while_its_gap_cannot_be_recorded(place: Place) -> None:
    """Nothing is given up in silence; as soon as it can be recorded, the slot goes."""
    await make_ready(place)
    with running(daemon(place, LIMIT)) as reader:
        await write(place, 1)
        await until(place.conn, ENDED, 1, alive=reader.is_alive)
        async with stuck(place, "agent.run"):
            async with locked(place, "agent.gap"):
                await fill(place, 32 * MB)
                await reader.has_said("slot.drop_skipped")
                assert await fetch(place.conn, HAS_SLOT, place.slot)
                assert await fetch(place.conn, "select from agent.gap") == []
            await until_ended(reader)
    assert await fetch(place.conn, HAS_SLOT, place.slot) == []
    assert await fetch(place.conn, GAP) == [(True, True, True, True)]


@pytest.mark.slow
async def test_a_standby_gives_nothing_up(place: Place) -> None:
    """Somebody else reads the slot, however slowly: that is for the one who holds the
    checkpoint.
    """
    await make_ready(place)
    options = StreamOptions(place.slot, publications=PUBLICATIONS)
    other = await connect_replication(place.dsn, sender_timeout=0)
    try:
        transport = await start_replication(other, options)
        with running(daemon(place, LIMIT)) as standby:
            await standby.has_said("reader.waiting")
            await fill(place, 32 * MB)
            await standby.has_said("slot.drop_skipped")
            standby.is_alive()
            (kept,) = (each for each in standby.events if each["event"] == "slot.drop_skipped")
            assert "another reader holds the checkpoint" in str(kept["error"])
        transport.close()
    finally:
        await other.close()
    assert await fetch(place.conn, HAS_SLOT, place.slot)
    assert await fetch(place.conn, "select from agent.gap") == []


@pytest.mark.slow
async def test_a_former_reader_gives_nothing_up(place: Place) -> None:
    """Its epoch is over: another one has taken the checkpoint."""
    await make_ready(place)
    with running(daemon(place, LIMIT)) as former:
        await former.has_said("reader.streaming")
        async with stuck(place, "agent.run"):
            await place.conn.execute(
                "select agent_internal.take_checkpoint(%s, 'another')", [place.slot]
            )
            await fill(place, 32 * MB)
            await former.has_said("slot.drop_skipped")
            assert await fetch(place.conn, "select from agent.gap") == []
        await until(place.conn, ENDED, 1, alive=former.is_alive)
    assert await fetch(place.conn, HAS_SLOT, place.slot)


@pytest.mark.slow
async def test_a_slot_whose_reader_died_before_it_was_dropped_is_dropped_by_the_next(
    place: Place,
) -> None:
    """The gap is on record, so the slot is of no use to anybody."""
    await make_ready(place)
    ((gap,),) = await fetch(
        place.conn,
        "select agent_internal.abandon_slot(slot, epoch, 'as was wanted') from agent.checkpoint",
    )
    assert gap is not None
    assert await fetch(place.conn, HAS_SLOT, place.slot)
    ended = await types(place, "init")
    assert ended.code == PERSON
    assert "was given up at" in ended.err
    assert await fetch(place.conn, HAS_SLOT, place.slot) == []
    reasons = "select reason from agent.gap where resolved_at is null"
    assert await fetch(place.conn, reasons) == [("as was wanted",)]
    (await types(place, "wal", "resync", "--default", "skip", "--yes")).worked()
    with running(Daemon(place)) as reader:
        await reader.has_said("reader.streaming")


@pytest.mark.slow
async def test_a_reader_that_catches_up_is_given_its_time(place: Place) -> None:
    """After a long absence far more than the limit is kept, and it is read to the end."""
    await make_ready(place)
    await write(place, *range(1, 50))
    await fill(place, 200 * MB)
    await write(place, *range(50, 100))
    limit = {"give_up_bytes": "24 MB", "give_up_after": "20s"}
    with running(daemon(place, limit)) as reader:
        await until(place.conn, ENDED, 99, alive=reader.is_alive)
    assert await fetch(place.conn, HAS_SLOT, place.slot)
    assert await fetch(place.conn, "select from agent.gap") == []
