"""Several processes as one service."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from walagent.app.processes import run_processes

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


async def test_a_signal_during_the_start_stops_what_was_started() -> None:
    """No child is started after it, and none misses it."""
    started: list[int] = []

    def command(index: int) -> Sequence[str]:
        started.append(index)
        if index == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return SLEEP

    async with asyncio.timeout(20):
        code = await run_processes(command, 4)
    assert started == [0, 1]
    assert code == 128 + signal.SIGTERM
