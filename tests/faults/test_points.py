"""The process dies at every named point, and what was begun is done once, to its end.

Reader and worker die inside the test's process here, where the point is exact; `test_failpoints`
has real processes.
"""

import asyncio
from contextlib import ExitStack

import pytest

from tests.faults.rig.inprocess import ingest
from tests.faults.rig.scene import (
    ASKED_AGAIN,
    OF_INTAKE,
    OF_WORKER,
    STAGES,
    Scene,
    all_is_well,
    make_scene,
    take_all_in,
)
from tests.faults.rig.stage import Place, let_time_pass, let_waits_end
from tests.faults.rig.waiting import fetch
from walagent.base import faults

# The checkpoint goes back to where the server would begin again.
PUT_BACK = """
update agent.checkpoint p set end_lsn = s.confirmed_flush_lsn
  from pg_replication_slots s, agent.checkpoint before
 where s.slot_name = p.slot and before.slot = p.slot and s.confirmed_flush_lsn < p.end_lsn
returning before.commit_lsn::text
"""
PASSED = "select end_lsn > %s::pg_lsn from agent.checkpoint"
TAKEN = (
    "select (select count(*) from agent.run) + (select count(*) from agent_internal.merged_change)"
)

SKIPS = [0, pytest.param(1, marks=pytest.mark.slow)]  # harmless passes before it fires
pytestmark = pytest.mark.scenario(1)


@pytest.fixture
async def scene(place: Place) -> Scene:
    """Tables, tools, two models, a slot: and nothing attached yet."""
    return await make_scene(place)


@pytest.mark.few(3)
@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("point", OF_INTAKE)
async def test_a_reader_that_dies_anywhere_takes_each_change_in_once(
    scene: Scene, point: str, skip: int
) -> None:
    """Whatever instant it dies at, the next one goes on from the checkpoint."""
    with ExitStack() as fault:
        fault.enter_context(faults.armed(point, skip=skip))
        assert await take_all_in(scene, fault) == 1, f"{point} never fired"
    await let_time_pass(scene.conn)
    assert not await scene.work()
    await all_is_well(scene)
    assert scene.asked_again == 0


@pytest.mark.few(3)
@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("point", OF_WORKER)
async def test_a_worker_that_dies_anywhere_has_every_effect_once(
    scene: Scene, point: str, skip: int
) -> None:
    """Whatever instant it dies at, the next one goes on from the recorded steps."""
    await take_all_in(scene)
    await let_time_pass(scene.conn)
    with faults.armed(point, skip=skip):
        assert await scene.work(), f"{point} never fired"
    await let_time_pass(scene.conn)
    assert not await scene.work()
    await all_is_well(scene)
    assert scene.asked_again == ASKED_AGAIN.get(point, 0)


@pytest.mark.few(1)
@pytest.mark.parametrize("point", [point for point in OF_WORKER if point != "run.claimed"])
async def test_a_run_in_which_anything_raises_is_worked_again(scene: Scene, point: str) -> None:
    """A bug is no death: the worker writes it down, waits, and goes on from the recorded steps."""
    await take_all_in(scene)
    await let_time_pass(scene.conn)
    with faults.armed(point, mode="error"):
        passing = asyncio.create_task(scene.work())
        while not passing.done():
            await let_waits_end(scene.conn)
            await asyncio.wait([passing], timeout=0.2)
        assert not passing.result()
    await all_is_well(scene)
    assert scene.asked_again == ASKED_AGAIN.get(point, 0)


@pytest.mark.slow
async def test_a_checkpoint_that_was_put_back_starts_nothing_again(scene: Scene) -> None:
    """The server sends again what has its runs already, and a unique key refuses it.

    The position is the first net, and it is gone here; this is the second.
    """
    for number, (statements, changes) in enumerate(STAGES):
        for statement in statements:
            await scene.conn.execute(statement.encode())
        if not changes:  # attaching starts nothing
            assert not await scene.ingest(number)
            continue
        with faults.armed("intake.committed"):
            assert await scene.ingest(number)
        ((last,),) = await fetch(scene.conn, PUT_BACK)

        async def is_there_again(commit: str = last) -> bool:
            return await scene.is_true(PASSED, commit)

        assert not await ingest(scene.dsn, scene.slot, is_there_again)
        assert await fetch(scene.conn, TAKEN) == [(changes,)]
    await let_time_pass(scene.conn)
    assert not await scene.work()
    await all_is_well(scene)
