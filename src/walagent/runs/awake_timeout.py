"""Time-outs that count only the time in which this process is awake.

A process that is suspended (a laptop's lid, a paused machine, SIGSTOP) finds every time-out passed
when it wakes.  It would tell a model that its tool has taken too long, or end a run that has only
just begun.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_LOOK = 1.0  # seconds between two looks at the clock; a suspended process makes none


class Wake:
    """Counts the seconds of a block, one look after another."""

    def __init__(self, limit: asyncio.Timeout, seconds: float) -> None:
        """Let *limit* expire after so many seconds awake."""
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._left = seconds
        self._missed = 0.0
        self._rest()

    @property
    def stood_still(self) -> bool:
        """Whether it could not look for a while; connections may not have outlived that."""
        return self._missed + self._late > _LOOK

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    @property
    def _late(self) -> float:
        return max(0.0, self._loop.time() - self._timer.when())

    def _rest(self) -> None:
        self._step = min(self._left, _LOOK)
        self._timer = self._loop.call_later(self._step, self._look)

    def _look(self) -> None:
        self._missed += self._late
        self._left -= self._step
        if self._left > 0:
            self._rest()
        else:
            self._limit.reschedule(self._loop.time())


@asynccontextmanager
async def awake_for(seconds: float) -> AsyncGenerator[Wake]:
    """Raise TimeoutError in a block that takes longer than *seconds* awake."""
    async with asyncio.timeout(None) as limit:
        wake = Wake(limit, seconds)
        try:
            yield wake
        finally:
            wake.stop()
