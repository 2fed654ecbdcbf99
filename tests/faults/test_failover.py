"""The primary dies, and its standby is promoted: with a synchronised slot nothing of it is felt."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.probing import is_not_ready, is_ready
from tests.faults.rig.processes import Daemon, Settings, free_port, pause, running, start_writer
from tests.faults.rig.servers import (
    STANDBY,
    SYNCED,
    OwnServer,
    Pair,
    exchanged,
    own_server,
    primary_and_standby,
    version_of,
)
from tests.faults.rig.stage import ATTACH, Figure, Place, set_latency, set_up
from tests.faults.rig.waiting import connect_again, fetch, until, until_true
from tests.integration.cli.user import User
from walagent.cli.exit_codes import PERSON
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot

pytestmark = pytest.mark.scenario(21)

IDLE_TIMEOUT = 180000  # since this version the server may drop slots that nobody reads
WITHHELD = "synchronized_standby_slots"
WRITE = """
with new as (insert into item values (0, 1) returning id, version)
insert into written (item, version) select * from new
"""
WAITS = """
select exists (select from pg_stat_activity
                where application_name = 'walagent intake' and wait_event_type = 'Lock')
"""
RUN = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key)
select 'manual', id, id, version, '{}', '1' from agent.attachment
"""
GAP = "select from_lsn = p.end_lsn, to_lsn > from_lsn from agent.gap, agent.checkpoint p"
CLAIM = "select run_id, lease from agent_internal.claim_runs(%s, 1, interval '1 hour')"
INVALIDATED = "select from pg_replication_slots where invalidation_reason = 'idle_timeout'"
ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"


@pytest.fixture
def which(request: pytest.FixtureRequest) -> str:
    """The server of this session."""
    return str(request.config.getoption("--server"))


@pytest.fixture
async def both(tmp_path: Path, which: str) -> AsyncIterator[tuple[Pair, Place]]:
    """A primary, its standby, and the scene on them."""
    async with primary_and_standby(tmp_path, which) as (pair, place):
        await set_up(place)
        yield pair, place


@pytest.fixture
def since_17(which: str) -> None:
    """Skip where standbys cannot synchronise slots."""
    if version_of(which) < SYNCED:
        pytest.skip("failover slots come with PostgreSQL 17")


@pytest.fixture
def synced(since_17: None, both: tuple[Pair, Place]) -> tuple[Pair, Place]:
    """The same, where standbys can synchronise slots."""
    return both


def settings(port: int = 0) -> Settings:
    """Of a daemon that makes a failover slot and, with *port*, can be asked how it is."""
    http = {"http": {"enabled": True, "port": port}} if port else {}
    return {"replication": {"failover": True}, **http}


async def attached(daemon: Daemon, place: Place) -> None:
    """Wait until the daemon acts on the application's changes."""
    await daemon.has_said("reader.streaming")
    await place.conn.execute(ATTACH.encode())
    await daemon.has_said("attachment.activated")


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.slow)])
async def test_a_promoted_standby_is_gone_on_with(
    synced: tuple[Pair, Place], which: str, chance: random.Random, figure: Figure, rounds: int
) -> None:
    """Under load: no change that the standby has is lost, none has effects twice."""
    pair, place = synced
    port = free_port()
    async with AsyncExitStack() as stack:
        daemon = stack.enter_context(running(Daemon(place, settings=settings(port))))
        await attached(daemon, place)
        seed = chance.randrange(2**32)
        writer = start_writer(place, seed=seed, changes=100_000, window=100)
        stack.enter_context(running(writer))
        for n in range(rounds):
            if n:
                pair = await stack.enter_async_context(exchanged(pair, place.folder, which))
            await fail_over(pair, place, chance)
            figure("failover", await is_ready(port), "s")
            async with await connect_again(place.dsn) as conn:
                ((before,),) = await fetch(conn, "select count(*) from written")
                await until(conn, ENDED, before + 50, alive=daemon.is_alive)
        writer.kill()
        async with await connect_again(place.dsn) as conn:
            await until(conn, ALL_ENDED, alive=daemon.is_alive)
            await all_is_well(conn)
            assert await fetch(conn, "select timeline from agent.checkpoint") == [(1 + rounds,)]
        assert daemon.count("timeline.changed") == rounds


async def fail_over(pair: Pair, place: Place, chance: random.Random) -> None:
    """Kill the primary at some moment, and promote its standby."""
    async with await AsyncConnection.connect(pair.primary.dsn, autocommit=True) as conn:
        await pair.is_synchronised(conn, place.slot)
    await pause(chance.uniform(0, 1))
    await pair.primary.kill()
    await pair.promote()


@pytest.mark.slow
async def test_a_daemon_that_is_started_on_the_promoted_standby_goes_on(
    synced: tuple[Pair, Place], chance: random.Random
) -> None:
    """Where nothing finds the new primary by itself."""
    pair, place = synced
    first, second = (replace(place, dsn=each.dsn) for each in (pair.primary, pair.standby))
    with running(Daemon(first, settings=settings())) as daemon:
        await attached(daemon, place)
        with running(start_writer(place, seed=chance.randrange(2**32), changes=800)) as writer:
            await fail_over(pair, place, chance)
            daemon.kill()
            with running(Daemon(second, settings=settings())) as next_one:
                assert await writer.ended() == 0
                async with await connect_again(place.dsn) as conn:
                    await until(conn, ALL_ENDED, alive=next_one.is_alive)
                    await all_is_well(conn)


@pytest.mark.slow
async def test_a_standby_that_lags_is_not_ahead_of_its_checkpoint(
    synced: tuple[Pair, Place], chance: random.Random
) -> None:
    """It has a change and the slot's position, but not the checkpoint's commit: nothing is lost.

    Meanwhile /readyz says for whom the server waits; so it does where the setting was copied.
    """
    pair, place = synced
    port = free_port()
    await name_standby(pair.primary.dsn)
    with running(Daemon(place, settings=settings(port))) as daemon:
        await attached(daemon, place)
        with running(start_writer(place, seed=chance.randrange(2**32), changes=200)) as writer:
            await pair.is_synchronised(place.conn, place.slot)
            assert await writer.ended() == 0
        await until(place.conn, ALL_ENDED)
        async with AsyncExitStack() as locked:
            other = await locked.enter_async_context(
                await AsyncConnection.connect(pair.primary.dsn)
            )
            await other.execute("lock table agent.run in exclusive mode")
            await place.conn.execute(WRITE)
            await until(place.conn, WAITS, alive=daemon.is_alive)
            async with pair.cut_off(place.conn):
                await locked.aclose()
                await until(place.conn, ALL_ENDED)
                await is_not_ready(port, WITHHELD)
                await name_standby(pair.standby.dsn)
                await pair.primary.kill()
        await pair.promote()
        await is_not_ready(port, WITHHELD)
        async with await connect_again(place.dsn) as conn:
            await name_standby(pair.standby.dsn, "")
            await until(conn, ALL_ENDED, alive=daemon.is_alive)
            await all_is_well(conn)
        await is_ready(port)
    assert daemon.count("reader.blocked") == 2


async def name_standby(dsn: str, slot: str = STANDBY) -> None:
    """Let a server keep changes back until *slot* has them."""
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute(f"alter system set synchronized_standby_slots = '{slot}'".encode())
        await conn.execute("select pg_reload_conf()")
        await until(conn, "select current_setting('synchronized_standby_slots') = %s", slot)


@pytest.mark.slow
async def test_a_standby_without_the_slot_is_a_gap(both: tuple[Pair, Place]) -> None:
    """What lies between is written down, and a person decides: exit 3."""
    pair, place = both
    with running(Daemon(place)) as daemon:
        await attached(daemon, place)
        await place.conn.execute(WRITE)
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await pair.wait_for_standby(place.conn)
        await pair.primary.kill()
        await pair.promote()
        assert await daemon.ended() == PERSON
        assert 'slot "walagent" does not exist' in daemon.said
    async with await connect_again(place.dsn) as conn:
        assert await fetch(conn, GAP) == [(True, True)]


@pytest.mark.slow
async def test_a_claim_of_a_lost_primary_is_nobodys(both: tuple[Pair, Place]) -> None:
    """The standby never saw it, and gives the run to another: whose lease has another number."""
    pair, place = both
    await place.conn.execute("select agent.attach('item', 'model=script')")
    await place.conn.execute(RUN)
    async with pair.cut_off(place.conn):
        (before,) = await fetch(place.conn, CLAIM, "before")
        await pair.primary.kill()
    await pair.promote()
    async with await connect_again(place.dsn) as conn:
        (after,) = await fetch(conn, CLAIM, "after")
        assert before[0] == after[0]
        with pytest.raises(psycopg.Error) as caught:
            await conn.execute("select agent_internal.fence(%s, %s)", before)
        assert caught.value.sqlstate == "WA001"
        await conn.execute("select agent_internal.fence(%s, %s)", after)


@pytest.mark.slow
async def test_a_run_whose_latest_steps_are_lost_is_worked_again_from_there(
    synced: tuple[Pair, Place],
) -> None:
    """The worker still knows them, and holds the lease: but what it adds would stand on nothing."""
    pair, place = synced
    set_latency(place, 2)
    async with AsyncExitStack() as stack:
        daemon = stack.enter_context(running(Daemon(place, settings=settings())))
        await attached(daemon, place)
        await pair.is_synchronised(place.conn, place.slot)
        async with await AsyncConnection.connect(pair.primary.dsn) as other:
            await other.execute("lock table effect in exclusive mode")
            await place.conn.execute(WRITE)
            await until(place.conn, "select count(*) = 1 from agent.step", alive=daemon.is_alive)
            await stack.enter_async_context(pair.cut_off(place.conn))
        await until(place.conn, "select count(*) = 3 from agent.step", alive=daemon.is_alive)
        await pair.primary.kill()
        await pair.promote()
        async with await connect_again(place.dsn) as conn:
            assert await fetch(conn, "select seq from agent.step") == [(0,)]
            await until(conn, ALL_ENDED, alive=daemon.is_alive)
            await all_is_well(conn)
        assert sum(each.get("state") == "left" for each in daemon.events) == 1


@pytest.mark.slow
async def test_a_daemon_on_a_standby_waits_for_its_promotion(both: tuple[Pair, Place]) -> None:
    """Where an address moves before the server is ready to be written to."""
    pair, place = both
    moved = replace(place, dsn=pair.standby.dsn)
    await ensure_slot(place.conn, pair.primary.dsn, Replication(slot=place.slot))
    await pair.wait_for_standby(place.conn)
    with running(Daemon(moved)) as daemon:
        await daemon.has_said("daemon.waiting", times=2)
        await pair.primary.kill()
        await pair.promote()
        assert await daemon.ended() == PERSON  # the slot was not synchronised


@pytest.mark.slow
async def test_an_idle_slot_is_kept_by_the_standby(
    synced: tuple[Pair, Place], figure: Figure
) -> None:
    """The slot was made without failover, nothing happens, and the doctor says when all is well."""
    pair, place = synced
    await ensure_slot(place.conn, pair.primary.dsn, Replication(slot=place.slot))
    assert "has no copy of slot" in await doctor(pair.standby, place)
    with running(Daemon(place, settings=settings())) as daemon:
        await daemon.has_said("reader.streaming")
        assert "standbys can synchronize slot" in await doctor(pair.primary, place)
        figure(
            "idle slot kept by the standby after",
            await pair.is_synchronised(place.conn, place.slot, hurry=False),
            "s",
        )
        assert "can be promoted without a gap" in await doctor(pair.standby, place)


async def doctor(server: OwnServer, place: Place) -> str:
    """What `walagent doctor` says of a server."""
    asked = await asyncio.to_thread(User(place.folder, server.dsn).types, "doctor", "--json")
    return asked.out


async def test_a_server_before_17_says_that_it_cannot(place: Place) -> None:
    """With the setting that goes without."""
    if place.conn.info.server_version >= SYNCED:
        pytest.skip("this server can")
    with running(Daemon(place, settings=settings())) as daemon:
        assert await daemon.ended() == PERSON
        assert "no failover slots, 17 or newer" in daemon.said
        assert "replication.failover to false" in daemon.said


@pytest.mark.slow
async def test_a_slot_that_was_idle_for_too_long_is_a_gap(tmp_path: Path, which: str) -> None:
    """The server took it away: as with any lost slot, exit 3 and a gap."""
    if version_of(which) < IDLE_TIMEOUT:
        pytest.skip("idle_replication_slot_timeout comes with PostgreSQL 18")
    async with own_server(tmp_path, which) as (_, place):
        await set_up(place)
        with running(Daemon(place)) as daemon:
            await attached(daemon, place)
            daemon.signal(signal.SIGTERM)
            assert await daemon.ended() == 0
        await place.conn.execute("alter system set idle_replication_slot_timeout = '1s'")
        await place.conn.execute("select pg_reload_conf()")
        await place.conn.execute(WRITE)

        async def is_lost() -> bool:
            await place.conn.execute("checkpoint")
            return bool(await fetch(place.conn, INVALIDATED))

        await until_true(is_lost, "the slot is invalidated")
        with running(Daemon(place)) as daemon:
            assert await daemon.ended() == PERSON
            assert "idle_timeout" in daemon.said
        ((reason,),) = await fetch(place.conn, "select reason from agent.gap")
        assert "idle_timeout" in reason
