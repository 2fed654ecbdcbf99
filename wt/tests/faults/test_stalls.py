"""Our side cannot go on, and the server must not suffer for it: its checkpoints, its shutdown."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import Figure, Place, set_up
from tests.faults.rig.waiting import fetch, until

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
    name = "forgetful"
    async with await AsyncConnection.connect(dsn, application_name=name) as conn:
        await conn.execute(f"lock table {table} in access exclusive mode".encode())
        yield conn
        await conn.rollback()


@pytest.mark.scenario(9)
@pytest.mark.parametrize("table", ["agent.run", "agent.progress"])
async def test_a_reader_that_cannot_write_lets_go_of_the_slot(
    place: Place, figure: Figure, table: str
) -> None:
    """It says who holds it up, leaves the slot alone meanwhile, and comes back by itself."""
    await set_up(place)
    settings = {"replication": {"stall_timeout": 1}}
    with running(Daemon(place, settings=settings)) as daemon:
        await daemon.has_said("reader.streaming")
        await place.conn.execute(ATTACH.encode())
        await daemon.has_said("attachment.active")
        async with locked(place.dsn, table) as other:
            for number in range(1, 11):
                await place.conn.execute(WRITE, [number])
            await place.conn.execute(FILL, [1000, 20_000])
            waited = await until(place.conn, LET_GO, place.slot, alive=daemon.is_alive)
            figure("stalled reader lets go after 1 s of patience", waited, "s")
            assert waited < 5
            await daemon.has_said("reader.waiting", times=2)
            reasons = [e["error"] for e in daemon.events if e["event"] == "reader.waiting"]
            assert f"process {other.info.backend_pid} (forgetful)" in reasons[1], reasons
            assert await fetch(place.conn, ACTIVE, place.slot) == [(False,)]
        await until(place.conn, ALL_ENDED, alive=daemon.is_alive)
        await all_is_well(place.conn)
