"""Retry at startup until the database is reachable."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from walagent.backoff import pause_after
from walagent.errors import DatabaseLostError
from walagent.log import log

T = TypeVar("T")


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
