"""Prepare the process: its limits, who may read its memory, and waiting for the database."""

import asyncio
import resource
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar

from walagent.base.private import close_process
from walagent.base.retries import of, repeat
from walagent.config.sections import Http
from walagent.errors import DatabaseLostError
from walagent.telemetry.log import log

T = TypeVar("T")


def prepare_process() -> None:
    """Raise the limit of open files, and close memory and environment to other processes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    close_process()


async def once_reached(attempt: Callable[[], Awaitable[T]], http: Http) -> T:
    """Repeat *attempt* with backoff until the database is reachable; return its result.

    Exiting would not help: systemd gives up after ten restarts.  Nor would silence: where *http* is
    enabled, probes are answered meanwhile.
    """
    trouble: list[BaseException] = []
    probes: asyncio.Task[None] | None = None

    def waiting(error: BaseException) -> None:
        nonlocal probes
        log.warning("daemon.waiting", error=error)
        trouble[:] = [error]
        if probes is None and http.enabled:
            from walagent.http.starting import answer_probes  # noqa: PLC0415 - only here

            probes = asyncio.create_task(answer_probes(http, lambda: trouble[-1]))

    try:
        return await repeat(attempt, of(DatabaseLostError), waiting)
    finally:
        if probes is not None:
            probes.cancel()
            with suppress(asyncio.CancelledError):
                await probes


@asynccontextmanager
async def opened_once_reached(
    make: Callable[[], AbstractAsyncContextManager[T]], http: Http
) -> AsyncGenerator[T]:
    """Enter the context that *make* returns, and repeat only that as `once_reached` does."""
    async with AsyncExitStack() as stack:
        yield await once_reached(lambda: stack.enter_async_context(make()), http)
