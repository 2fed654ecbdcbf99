"""Full collections of garbage, which stop the event loop."""

import asyncio
import gc
import sys

import pytest

from walagent.app import collection


def full() -> int:
    """How many full collections there were."""
    return gc.get_stats()[2]["collections"]


async def test_what_lives_for_a_while_starts_no_full_collection() -> None:
    """As the rows of a large transaction do; afterwards, Python decides again."""
    before = gc.get_threshold()
    task = asyncio.create_task(collection.keep_collecting())
    await asyncio.sleep(0)
    gc.collect()
    seen = full()
    kept = [[n] for n in range(400_000)]
    assert full() == seen
    assert len(kept) == 400_000
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert gc.get_threshold() == before
    more = [[n] for n in range(400_000)]
    # From 3.14 on, Python collects old objects in small steps.
    assert full() > seen or sys.version_info >= (3, 14)
    assert len(more) == 400_000


async def test_cycles_are_collected_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon while there are few objects, and later however many there are."""
    monkeypatch.setattr(collection, "_EVERY", 0.01)
    monkeypatch.setattr(collection, "_SHARE", 100.0)
    for many, latest, expected in ((1 << 40, 600.0, True), (0, 600.0, False), (0, 0.0, True)):
        monkeypatch.setattr(collection, "_MANY", many)
        monkeypatch.setattr(collection, "_LATEST", latest)
        seen = full()
        task = asyncio.create_task(collection.keep_collecting())
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (full() > seen) is expected
