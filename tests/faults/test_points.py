"""The process dies at every named point, and what was begun is done once, to its end.

Reader and worker die inside the test's process here, where the point is exact; `test_failpoints`
has real processes.
"""

import asyncio
from contextlib import ExitStack

import pytest

from tests.faults.rig.scene import (
    ASKED_AGAIN,
    OF_INTAKE,
    OF_WORKER,
    Scene,
    all_is_well,
    make_scene,
    take_all_in,
)
from tests.faults.rig.stage import Place, let_time_pass, let_waits_end
from walagent import faults

SKIPS = [0, pytest.param(1, marks=pytest.mark.slow)]  # harmless passes before it fires
pytestmark = pytest.mark.scenario(1)


@pytest.fixture
async def scene(place: Place) -> Scene:
    """Tables, tools, two models, a slot: and nothing attached yet."""
    return await make_scene(place)


@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("point", OF_INTAKE)
async def test_a_reader_that_dies_anywhere_takes_each_change_in_once(
    scene: Scene, point: str, skip: int
) -> None:
    """Whatever instant it dies at, the next one goes on from the ledger."""
    with ExitStack() as fault:
        fault.enter_context(faults.armed(point, skip=skip))
        assert await take_all_in(scene, fault) == 1, f"{point} never fired"
    await let_time_pass(scene.conn)
    assert not await scene.work()
    await all_is_well(scene)
    assert scene.asked_again == 0


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
