"""Race tasks, repeat a turn every few seconds, wait for an event for a limited time."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

T = TypeVar("T")


async def first_of(**parts: Coroutine[Any, Any, T]) -> T:
    """Run *parts* side by side until the first one ends; return its result or raise its error.

    The others are cancelled and have ended on return; what they return or raise is dropped.  If
    several end in the same moment, the one that comes first among the arguments counts.  The
    caller's cancellation cancels all of them.

    Args:
        parts: each under the name of its task.
    """
    tasks = [asyncio.create_task(part, name=name) for name, part in parts.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def event_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait until *event* is set, but no longer than *seconds*; return whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class Breath:
    """Pauses of long work, one every few milliseconds, in which the rest of the loop runs."""

    def __init__(self, every: float = 0.005) -> None:
        """Start now; *every* is in seconds."""
        self._every = every
        self._since = time.perf_counter()

    async def if_due(self) -> None:
        """Let others run, if it is time."""
        if time.perf_counter() - self._since > self._every:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


class Periodic:
    """The turns of a loop: one every so many seconds, and one soon after each nudge.

        async for nudged in self._turns:
            await self._look()

    The seconds count from the start of a turn to the start of the next, so the work delays no turn;
    turns that were missed are skipped.  An error of the body ends the loop.  The turns can be
    iterated again, by one loop at a time.
    """

    def __init__(self, every: float, *, rest: float = 0.0, at_once: bool = True) -> None:
        """Start no clock yet; times are seconds.

        Args:
            every: from the start of one turn to the start of the next.
            rest: the shortest pause after a turn, however often it is nudged.
            at_once: whether the first turn starts immediately, not after *every*.
        """
        self._every = every
        self._rest = rest
        self._at_once = at_once
        self._nudged = asyncio.Event()
        self._due: float | None = None  # on the clock of the event loop; None: before the first

    def nudge(self) -> None:
        """Start the next turn now; during a turn, as soon as it ends.  Several count as one."""
        self._nudged.set()

    def __aiter__(self) -> Self:
        """Start the clock with the first turn."""
        self._due = None
        return self

    async def __anext__(self) -> bool:
        """Wait for the next turn; return whether it was nudged."""
        now = asyncio.get_running_loop().time
        if self._due is None:
            self._due = now() + (0 if self._at_once else self._every)
        else:
            await asyncio.sleep(self._rest)
        nudged = await event_within(self._nudged, self._due - now())
        self._nudged.clear()
        self._due = now() + self._every
        return nudged
