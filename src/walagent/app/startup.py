"""Prepare the process: raise its limits, and retry until the database is reachable."""

import asyncio
import resource
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from walagent.base.backoff import pause_after
from walagent.errors import DatabaseLostError
from walagent.telemetry.log import log

T = TypeVar("T")


def raise_file_limit() -> None:
    """Raise the limit of open files to what the system allows this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def once_reached(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat *attempt* with backoff until the database is reachable; return its result.

    Exiting would not help: systemd gives up after ten restarts.
    """
    for failures in count(1):
        try:
            return await attempt()
        except DatabaseLostError as error:
            log.warning("daemon.waiting", error=error)
            await asyncio.sleep(pause_after(failures))
    raise AssertionError("count() has no end")
