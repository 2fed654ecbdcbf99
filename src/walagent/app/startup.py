"""Prepare the process: its limits, who may read its memory, and waiting for the database."""

import ctypes
import resource
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

from walagent.base.retries import of, repeat
from walagent.errors import DatabaseLostError
from walagent.telemetry.log import log

T = TypeVar("T")


_PR_SET_DUMPABLE = 4


def prepare_process() -> None:
    """Raise the limit of open files, and close memory and environment to other processes.

    They have keys and passwords, which a program that this one starts, such as an MCP server, could
    read in /proc as the same user; and a core file would have them.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


async def once_reached(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat *attempt* with backoff until the database is reachable; return its result.

    Exiting would not help: systemd gives up after ten restarts.
    """
    return await repeat(
        attempt, of(DatabaseLostError), lambda error: log.warning("daemon.waiting", error=error)
    )


@asynccontextmanager
async def opened_once_reached(
    make: Callable[[], AbstractAsyncContextManager[T]],
) -> AsyncGenerator[T]:
    """Enter the context that *make* returns, and repeat only that as `once_reached` does."""
    async with AsyncExitStack() as stack:
        yield await once_reached(lambda: stack.enter_async_context(make()))
