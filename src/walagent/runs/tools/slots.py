"""Limit how many tools hold a connection; some are reserved for claims, heartbeats and steps.

A tool can wait for locks of the application.  Without a limit, waiting tools could hold every
connection until leases expire.  So there are fewer slots than connections, and a queue whose last
call met a lock conflict has one slot until one of its calls succeeds.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

# The LISTEN connection, a claim or heartbeat, and a step.
KEPT = 3


class Gate:
    """Slots for tool calls, first come, first served."""

    def __init__(self, connections: int) -> None:
        """Reserve some of *connections*, but never all."""
        self._free = max(1, connections - KEPT)
        self._inside: Counter[int] = Counter()
        self._jammed: set[int] = set()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, attachment: int) -> AsyncGenerator[None]:
        """Hold a slot for one call of a queue."""
        await self._enter(attachment)
        try:
            yield
        finally:
            self._leave(attachment)

    def jam(self, attachment: int, *, jammed: bool) -> None:
        """Record whether the queue's last call met a lock conflict."""
        if jammed:
            self._jammed.add(attachment)
        elif attachment in self._jammed:
            self._jammed.remove(attachment)
            self._hand_over()

    async def _enter(self, attachment: int) -> None:
        if self._may_enter(attachment):
            self._take(attachment)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((attachment, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it got the slot at the same moment
                self._leave(attachment)
            raise

    def _may_enter(self, attachment: int) -> bool:
        return self._free > 0 and not (attachment in self._jammed and self._inside[attachment])

    def _take(self, attachment: int) -> None:
        self._free -= 1
        self._inside[attachment] += 1

    def _leave(self, attachment: int) -> None:
        self._free += 1
        self._inside[attachment] -= 1
        self._hand_over()

    def _hand_over(self) -> None:
        """Assign free slots to waiting calls; each is counted before its call resumes."""
        for _ in range(len(self._waiting)):
            attachment, turn = self._waiting.popleft()
            if turn.cancelled():
                continue
            if self._may_enter(attachment):
                self._take(attachment)
                turn.set_result(None)
            else:
                self._waiting.append((attachment, turn))
