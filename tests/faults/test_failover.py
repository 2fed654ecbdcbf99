"""The primary dies, and its standby is promoted: with a synchronised slot nothing of it is felt."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.probing import is_not_ready, is_ready
from tests.faults.rig.processes import Daemon, Settings, free_port, pause, running, start_writer
from tests.faults.rig.servers import STANDBY, SYNCED, Pair, primary_and_standby, version_of
from tests.faults.rig.stage import ATTACH, Figure, Place, set_up
from tests.faults.rig.waiting import connect_again, fetch, until

pytestmark = pytest.mark.scenario(21)

WITHHELD = "synchronized_standby_slots"
WRITE = """
with new as (insert into item values (0, 1) returning id, version)
insert into written (item, version) select * from new
"""
WAITS = """
select exists (select from pg_stat_activity
                where application_name = 'walagent intake' and wait_event_type = 'Lock')
"""
ENDED = "select (select count(*) from agent.run where agent.is_final(state)) >= %s"


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
async def synced(both: tuple[Pair, Place], which: str) -> tuple[Pair, Place]:
    """The same, where standbys can synchronise slots."""
    if version_of(which) < SYNCED:
        pytest.skip("failover slots come with PostgreSQL 17")
    return both


def settings(port: int = 0) -> Settings:
    """Of a daemon that makes a failover slot and, with *port*, can be asked how it is."""
    http = {"http": {"enabled": True, "port": port}} if port else {}
    return {"replication": {"failover": True}, **http}


async def attached(daemon: Daemon, place: Place) -> None:
    """Wait until the daemon acts on the application's changes."""
    await daemon.has_said("reader.streaming")
    await place.conn.execute(ATTACH.encode())
    await daemon.has_said("attachment.active")


async def test_a_promoted_standby_is_gone_on_with(
    synced: tuple[Pair, Place], chance: random.Random, figure: Figure
) -> None:
    """Under load: no change that the standby has is lost, none has effects twice."""
    pair, place = synced
    port = free_port()
    with running(Daemon(place, settings=settings(port))) as daemon:
        await attached(daemon, place)
        with running(start_writer(place, seed=chance.randrange(2**32), changes=10_000)) as writer:
            await pair.is_synchronised(place.conn, place.slot)
            await pause(chance.uniform(0, 1))
            await pair.primary.kill()
            await pair.promote()
            figure("failover", await is_ready(port), "s")
            async with await connect_again(place.dsn) as conn:
                ((before,),) = await fetch(conn, "select count(*) from written")
                await until(conn, ENDED, before + 50, alive=daemon.is_alive)
            writer.kill()
        async with await connect_again(place.dsn) as conn:
            await until(conn, ALL_ENDED, alive=daemon.is_alive)
            await all_is_well(conn)
            assert await fetch(conn, "select timeline from agent.progress") == [(2,)]
    assert daemon.count("timeline.changed") == 1


async def test_a_standby_that_lags_is_not_ahead_of_its_ledger(
    synced: tuple[Pair, Place], chance: random.Random
) -> None:
    """It has a change and the slot's position, but not the ledger's commit: nothing is lost.

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
    assert daemon.count("reader.withheld") == 2


async def name_standby(dsn: str, slot: str = STANDBY) -> None:
    """Let a server keep changes back until *slot* has them."""
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute(f"alter system set synchronized_standby_slots = '{slot}'".encode())
        await conn.execute("select pg_reload_conf()")
        await until(conn, "select current_setting('synchronized_standby_slots') = %s", slot)
