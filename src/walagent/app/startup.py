"""Waiting for a database that is not there yet, as the parts do later for one that is gone."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from walagent.backoff import pause_after
from walagent.errors import DatabaseLostError
from walagent.log import log

T = TypeVar("T")


async def once_reached(attempt: Callable[[], Awaitable[T]]) -> T:
    """Make an attempt until the database is there for it, and return what it returns.

    Whoever starts us would only start us again, and systemd gives up after ten times.
    """
    for failures in count(1):
        try:
            return await attempt()
        except DatabaseLostError as error:
            log.warning("daemon.waiting", error=error)
            await asyncio.sleep(pause_after(failures))
    raise AssertionError("count() has no end")
