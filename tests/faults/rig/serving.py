"""The daemon inside the test's own process, for tests of its connections."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.faults.rig.processes import config_of
from tests.faults.rig.stage import Place
from tests.faults.rig.waiting import DEADLINE
from walagent.app.serve import Hooks, serve
from walagent.config import Config
from walagent.config.dsn import Places


class Serving:
    """A daemon that runs."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task
        self.streams = 0  # how often it began to stream

    def is_alive(self) -> None:
        """Raise what ended it."""
        if self._task.done():
            self._task.result()
            raise AssertionError("the daemon has ended")


@asynccontextmanager
async def serving(
    place: Place,
    dsn: str,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    replication_dsn: str = "",
) -> AsyncIterator[Serving]:
    """Run the daemon with its connections to *dsn* until the block ends.

    Args:
        replication_dsn: of whoever reads the WAL; default: the same.
    """
    streaming = asyncio.Event()

    def heard() -> None:
        daemon.streams += 1
        streaming.set()

    config = Config.model_validate(config_of(place, settings or {}))
    places = Places(dsn, replication_dsn or dsn)
    task = asyncio.create_task(serve(config, places, Hooks(on_streaming=heard)))
    daemon = Serving(task)
    waiting = asyncio.create_task(streaming.wait())
    try:
        async with asyncio.timeout(DEADLINE):
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        daemon.is_alive()
        yield daemon
        daemon.is_alive()
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.wait({task, waiting})
