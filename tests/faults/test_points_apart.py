"""Deaths where more than one transaction of the database is concerned.

A large transaction is ingested piece by piece; a tool that leaves the database has no step that
commits with its effect.
"""

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.inprocess import ingest, work
from tests.faults.rig.serving import serving
from tests.faults.rig.stage import (
    ATTACH,
    CLOCK,
    SCHEMA,
    TOOLS,
    Place,
    add_model,
    let_time_pass,
    set_up,
)
from tests.faults.rig.tools import OUTSIDE
from tests.faults.rig.waiting import fetch, until
from walagent.base import faults
from walagent.intake.batching import SPILL_AFTER
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.tools import register_python_tools
from walagent.tools.python import find_tools

pytestmark = pytest.mark.scenario(1)
SOURCES = Path(__file__).parent.parent.parent / "src"
LARGE = 10 * SPILL_AFTER  # rows: several pieces, whatever comes at once
IN_EFFECT = "select exists (select from agent.attachment_version where active_from is not null)"
REPORTED = """
select coalesce(max(reply_time), '-infinity') > %s
  from pg_stat_replication r join pg_replication_slots s on s.active_pid = r.pid
 where s.database = current_database()
"""
CONFIRMED = """
select s.confirmed_flush_lsn >= change.at, s.confirmed_flush_lsn <= p.end_lsn
  from agent.checkpoint p join pg_replication_slots s on s.slot_name = p.slot,
       (select %s::pg_lsn as at) change
 where p.slot = %s
"""
COUNT_OF_ALL = "select count(*) from agent.run"
ENDED = """
select bool_and(agent_internal.is_final(state) or state = 'needs_review') from agent.run
"""


def test_every_point_in_the_code_is_known() -> None:
    """A misspelt point would never fire, and nobody would notice."""
    texts = [path.read_text() for path in SOURCES.rglob("*.py")]
    found = {name for text in texts for name in re.findall(r'faults\.hit\("([^"]+)"\)', text)}
    assert found == set(faults.KNOWN)


async def attach(place: Place, spec: str) -> None:
    """Make the scene with one attachment that is in effect."""
    conn, dsn, slot = place.conn, place.dsn, place.slot
    await conn.execute(SCHEMA + CLOCK)
    await register_python_tools(conn, find_tools([TOOLS]).values())
    await add_model(place, "script")

    async def in_effect() -> bool:
        query = "select exists (select from agent.attachment_version where active_from is not null)"
        return (await fetch(conn, query))[0][0]

    async def at_once() -> bool:
        return True

    await ingest(dsn, slot, at_once)  # makes slot and checkpoint
    await conn.execute("select agent.attach('item', %s)", [spec])
    assert not await ingest(dsn, slot, in_effect)


@pytest.mark.slow
async def test_nothing_is_confirmed_before_it_is_committed(place: Place) -> None:
    """While the runs of a change cannot be inserted, the server keeps the change."""
    conn = place.conn
    await set_up(place)
    async with serving(place, place.dsn) as daemon:
        await conn.execute(ATTACH.encode())
        await until(conn, IN_EFFECT, alive=daemon.is_alive)
        async with await AsyncConnection.connect(place.dsn) as other, other.transaction():
            await other.execute("lock table agent.run in exclusive mode")
            await conn.execute("insert into written (item, version) values (1, 1)")
            await conn.execute("insert into item values (1, 1)")
            ((changed,),) = await fetch(conn, "select pg_current_wal_lsn()::text")
            for _ in range(3):  # reports of ours that came since
                ((told,),) = await fetch(conn, "select clock_timestamp()")
                await until(conn, REPORTED, told, alive=daemon.is_alive)
            assert await fetch(conn, CONFIRMED, changed, place.slot) == [(False, True)]
        await until(conn, ALL_ENDED, alive=daemon.is_alive)
        ((ingested,),) = await fetch(conn, "select (commit_lsn + 1)::text from agent.run")
        await until(conn, CONFIRMED, ingested, place.slot, alive=daemon.is_alive)
        await all_is_well(conn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "skip"),
    [
        ("intake.runs_inserted", 1),
        pytest.param("intake.runs_inserted", 0, marks=pytest.mark.slow),
        pytest.param("intake.runs_inserted", 2, marks=pytest.mark.slow),
        pytest.param("intake.checkpoint_advanced", 0, marks=pytest.mark.slow),
        pytest.param("intake.committed", 0, marks=pytest.mark.slow),
        pytest.param("frame.received", 5, marks=pytest.mark.slow),  # of ten or more
    ],
)
async def test_half_a_large_transaction_is_never_ingested(
    place: Place, point: str, skip: int
) -> None:
    """A reader that dies between its pieces leaves none of them, or has committed all."""
    conn, dsn, slot = place.conn, place.dsn, place.slot
    await attach(place, "model=script")
    await conn.execute("insert into item select n, 1 from generate_series(1, %s) n", [LARGE])

    async def ingested() -> bool:
        (count,) = (await fetch(conn, "select count(*) from agent.run"))[0]
        assert count in {0, LARGE}
        return count == LARGE

    with ExitStack() as fault:
        fault.enter_context(faults.armed(point, skip=skip))
        assert await ingest(dsn, slot, ingested), f"{point} never fired"
        fault.close()
    await ingested()
    assert not await ingest(dsn, slot, ingested)
    ids = "select count(distinct change -> 'new' ->> 'id') from agent.run"
    assert await fetch(conn, ids) == [(LARGE,)]
    assert await fetch(conn, "select * from agent.broken_invariant") == []


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "point", ["intake.checkpoint_advanced", "intake.committed", "intake.confirmed"]
)
async def test_a_commit_right_after_another_is_neither_lost_nor_repeated(
    place: Place, point: str
) -> None:
    """One ends where the other begins.  A reader that dies at the commit of the first leaves the
    checkpoint at that very place; one that dies as it confirms has ingested both.

    The first is large, so it is committed by itself.
    """
    conn, dsn, slot = place.conn, place.dsn, place.slot
    await attach(place, "model=script")
    async with (
        await AsyncConnection.connect(dsn) as large,
        await AsyncConnection.connect(dsn) as small,
    ):
        await large.execute("insert into item select n, 1 from generate_series(1, %s) n", [LARGE])
        await small.execute("insert into item values (0, 1)")
        await large.commit()
        await small.commit()

    async def all_ingested() -> bool:
        return (await fetch(conn, "select exists (select from agent.run where key = '-1')"))[0][0]

    with faults.armed(point):
        assert await ingest(dsn, slot, all_ingested), f"{point} never fired"
    ((end,),) = await fetch(conn, "select end_lsn::text from agent.checkpoint")
    await conn.execute("insert into item values (-1, 1)")
    assert not await ingest(dsn, slot, all_ingested)
    assert await fetch(conn, COUNT_OF_ALL) == [(LARGE + 2,)]
    ((second,),) = await fetch(conn, "select commit_lsn::text from agent.run where key = '0'")
    assert (end == second) == (point == "intake.committed"), "they were not adjacent"
    assert await fetch(conn, "select * from agent.broken_invariant") == []


@pytest.mark.few(1)
@pytest.mark.parametrize("point", ["tool.started", "tool.done"])
@pytest.mark.parametrize("tool", ["tell_again", "tell_once"])
async def test_a_tool_that_leaves_the_database_is_never_repeated_blindly(
    place: Place, monkeypatch: pytest.MonkeyPatch, tool: str, point: str
) -> None:
    """An idempotent one is called again with the same key; of an unsafe one a person is asked."""
    conn, dsn, slot = place.conn, place.dsn, place.slot
    outside = place.folder / "outside"
    outside.touch()
    monkeypatch.setenv(OUTSIDE, str(outside))
    await attach(place, f"model=script, tools=[{tool}], bind=[item=id]")
    await conn.execute("insert into item values (1, 1)")

    async def ingested() -> bool:
        return (await fetch(conn, "select exists (select from agent.run)"))[0][0]

    async def ended() -> bool:
        return (await fetch(conn, ENDED))[0][0]

    await ingest(dsn, slot, ingested)
    models = {"script": ScriptedModel([call(tool), "Told."])}
    with faults.armed(point):
        assert await work(dsn, models, ended), f"{point} never fired"
    await let_time_pass(conn)
    assert not await work(dsn, models, ended)

    told = outside.read_text().splitlines()
    if tool == "tell_once":
        assert len(told) == (point == "tool.done")
        assert await fetch(conn, "select state from agent.run") == [("needs_review",)]
        await conn.execute("select agent.resolve(id, true, 'told') from agent.run")
        assert not await work(dsn, models, ended)
    else:
        assert len(told) == 1 + (point == "tool.done")
        assert len(set(told)) == 1
    assert outside.read_text().splitlines() == told
    assert await fetch(conn, "select state, result from agent.run") == [("succeeded", "Told.")]
    assert await fetch(conn, "select * from agent.broken_invariant") == []
