"""Run a command until Ctrl-C."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from walagent.base.concurrency import first_of


async def until_stopped(**work: Coroutine[Any, Any, object]) -> None:
    """Run *work* until it ends, or until SIGINT or SIGTERM cancels it."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await first_of(**work, stopped=stopped.wait())
