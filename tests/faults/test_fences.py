"""Somebody else takes over at every named point: who lost the run, or the checkpoint, writes no
more.

The thief comes while the process stands still between two steps, as one does that was frozen, cut
off, or starved for longer than its lease.
"""

import psycopg
import pytest

from tests.faults.rig.inprocess import ingest, work
from tests.faults.rig.scene import (
    ENDED,
    INGESTED,
    OF_INTAKE,
    OF_WORKER,
    STAGES,
    Scene,
    all_is_well,
    make_scene,
    take_all_in,
)
from tests.faults.rig.stage import Place, let_time_pass
from tests.faults.rig.waiting import fetch
from walagent.base import faults
from walagent.errors import FencedError
from walagent.telemetry import metrics

pytestmark = pytest.mark.scenario(1, 6)

# In the middle of its own transaction nobody can take its run; after the last there is none.
NOT_TO_BE_HAD = {"tool.done", "tool.recorded", "run.committed"}
# Whoever can be robbed is, and then everybody; else nobody.  A tick in progress would make this
# one do nothing.
STEAL_RUNS = """
lock agent_internal.tick_lock in share row exclusive mode;
create temp table held as select id from agent.run where state = 'running';
update clock set shift = shift + interval '1 hour';
select agent_internal.tick();
select count(*) from agent_internal.claim_runs('thief', 100, '1 minute')
 where exists (select from held join agent.run using (id) where state = 'pending')
"""
OF_RUNS = """
select id, state, worker, lease, attempt, result, tokens,
       (select json_agg(s order by s.seq)::text from agent.step s where s.run_id = r.id),
       (select json_agg(e order by e.seq)::text from effect e
         where e.item = (r.change -> 'new' ->> 'id')::bigint)
  from agent.run r where worker = 'thief' and state = 'running' order by id
"""
FAST = {"model.answered", "tool.started", "tool.recorded", "frame.received", "intake.runs_inserted"}
BEFORE_THE_COMMIT = {"frame.received", "intake.runs_inserted"}  # there is still something to write
STEAL_LEDGER = (
    "set lock_timeout = '100ms'; select epoch from agent_internal.take_checkpoint(%s, 'thief')"
)
OF_LEDGER = """
select epoch, reader, commit_lsn::text, end_lsn::text,
       (select count(*) from agent.run), (select count(*) from agent_internal.merged_change),
       (select count(*) from agent.attachment_version where active_from is not null)
  from agent.checkpoint
"""


def each(points: tuple[str, ...]) -> list[object]:
    """Every point; most of them in the full run only."""
    return [pytest.param(p, marks=() if p in FAST else pytest.mark.slow) for p in points]


@pytest.fixture
async def scene(place: Place) -> Scene:
    """Tables, tools, two models, a slot: and nothing attached yet."""
    return await make_scene(place)


def stealing(scene: Scene, steal: str, seen: str, loot: list[object]) -> None:
    """Take over, from a connection of the thief's own, and remember what there is then."""
    with psycopg.connect(scene.dsn, autocommit=True) as thief:
        try:
            thief.execute(steal.replace("%s", f"'{scene.slot}'").encode())
        except psycopg.errors.LockNotAvailable:
            return
        loot.extend(thief.execute(seen.encode()).fetchall())


def works() -> float:
    """How often this process has let go of a run."""
    return metrics.registry.get_sample_value("walagent_run_duration_seconds_count") or 0.0


@pytest.mark.few(1)
@pytest.mark.parametrize("point", each(OF_WORKER))
async def test_a_worker_that_loses_its_lease_anywhere_writes_no_more(
    scene: Scene, point: str
) -> None:
    """Another holds the run by then: no step, no effect and no end of the first one's counts."""
    await take_all_in(scene)
    await let_time_pass(scene.conn)
    loot: list[object] = []
    at = works()

    def steal() -> None:
        nonlocal at
        stealing(scene, STEAL_RUNS, OF_RUNS, loot)
        at = works()

    async def has_let_go() -> bool:
        return bool(loot) and works() > at

    async def is_over() -> bool:
        return await has_let_go() or await scene.is_true(ENDED)

    with faults.armed(point, mode=steal):
        await work(scene.dsn, scene.models, is_over)
    assert bool(loot) == (point not in NOT_TO_BE_HAD)
    assert await fetch(scene.conn, OF_RUNS) == loot
    await let_time_pass(scene.conn)
    assert not await scene.work()
    await all_is_well(scene)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("point", each(OF_INTAKE))
async def test_a_reader_that_loses_the_checkpoint_anywhere_writes_no_more(
    scene: Scene, point: str
) -> None:
    """Another has the checkpoint by then: no run and no position of the first one's counts."""
    loot: list[object] = []
    fenced = 0

    async def all_is_ingested() -> bool:
        return await scene.is_true(INGESTED, STAGES[number][1])

    with faults.armed(point, mode=lambda: stealing(scene, STEAL_LEDGER, OF_LEDGER, loot)):
        for number, (statements, _) in enumerate(STAGES):
            for statement in statements:
                await scene.conn.execute(statement.encode())
            try:
                await ingest(scene.dsn, scene.slot, all_is_ingested)
            except FencedError:
                fenced += 1
                assert await fetch(scene.conn, OF_LEDGER) == loot
                await scene.ingest(number)
    assert bool(loot) == (point != "intake.checkpoint_advanced")
    assert fenced == (point in BEFORE_THE_COMMIT)
    await let_time_pass(scene.conn)
    assert not await scene.work()
    await all_is_well(scene)
