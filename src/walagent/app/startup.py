"""Prepare the process: raise its limits, and retry until the database is reachable."""

import resource
from collections.abc import Awaitable, Callable
from typing import TypeVar

from walagent.base.retries import of, retrying
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
    waiting = retrying(
        of(DatabaseLostError), lambda error: log.warning("daemon.waiting", error=error)
    )

    async def attempted() -> T:  # tenacity awaits coroutine functions, which a lambda is not
        return await attempt()

    return await waiting(attempted)
