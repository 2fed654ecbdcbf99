"""Timeouts that count only the time in which this process is awake.

When a process wakes that was suspended (a laptop's lid, a paused machine, SIGSTOP), every timeout
has passed.  It would report to a model that its tool has taken too long, or end a run that has only
just begun.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

_LOOK = 1.0  # seconds between two looks at the clock; a suspended process makes none


class _Clock:
    """Looks at the time once a second, for all blocks of an event loop.

    A timer for each block would cost thousands of timers a second where thousands of runs wait for
    a model.
    """

    def __init__(self) -> None:
        self._missed = 0.0
        self._blocks: set[Wake] = set()
        self._timer: asyncio.TimerHandle | None = None  # while there are blocks

    @property
    def missed(self) -> float:
        """The seconds for which no look was made that was due."""
        if self._timer is None:
            return self._missed
        return self._missed + max(0.0, _now() - self._timer.when())

    def add(self, block: "Wake") -> None:
        self._blocks.add(block)
        if self._timer is None:
            self._timer = _call_later(_LOOK, self._look)

    def discard(self, block: "Wake") -> None:
        self._blocks.discard(block)
        if not self._blocks and self._timer is not None:
            self._missed = self.missed
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._missed = self.missed
        self._timer = _call_later(_LOOK, self._look)
        for block in tuple(self._blocks):
            block.look()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _call_later(seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, call)


_clocks: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clock] = WeakKeyDictionary()


class Wake:
    """Counts the seconds of one block."""

    def __init__(self, clock: _Clock, limit: asyncio.Timeout, seconds: float) -> None:
        """Let *limit* expire after so many seconds awake."""
        self._clock = clock
        self._limit = limit
        clock.add(self)
        self._missed_before = clock.missed
        self._end = _now() + seconds  # unless it stands still
        self._timer: asyncio.TimerHandle | None = None
        self.look()

    @property
    def stood_still(self) -> bool:
        """Whether no look was made for a while; connections may not have outlived that."""
        return self._missed > _LOOK

    @property
    def _missed(self) -> float:
        return self._clock.missed - self._missed_before

    def look(self) -> None:
        """End the block if its time is up; wake up in time if that is before the next look."""
        now = _now()
        left = self._end + self._missed - now
        if left <= 0:
            self._clock.discard(self)
            self._limit.reschedule(now)
        elif left <= _LOOK:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = _call_later(left, self.look)

    def stop(self) -> None:
        """Look no more."""
        self._clock.discard(self)
        if self._timer is not None:
            self._timer.cancel()


@asynccontextmanager
async def awake_for(seconds: float) -> AsyncGenerator[Wake]:
    """Raise TimeoutError in a block that takes longer than *seconds* awake."""
    loop = asyncio.get_running_loop()
    clock = _clocks.get(loop)
    if clock is None:
        clock = _clocks[loop] = _Clock()
    async with asyncio.timeout(None) as limit:
        wake = Wake(clock, limit, seconds)
        try:
            yield wake
        finally:
            wake.stop()
