"""How many tools hold a connection at once: some are kept for claims, heartbeats and steps.

A tool waits for locks of the application, and a hundred of them could have every connection while
leases run out.  So there are fewer places than connections, and an agent whose last call found a
lock in its way has one place, not all of them, until a call of its succeeds.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

# Beside the one that listens: a claim or heartbeat, and a step.
KEPT = 3


class Gate:
    """Places for tool calls, first come first served among those that may enter."""

    def __init__(self, connections: int) -> None:
        """Keep some of *connections* back, but never all."""
        self._free = max(1, connections - KEPT)
        self._inside: Counter[int] = Counter()
        self._jammed: set[int] = set()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, attachment: int) -> AsyncGenerator[None]:
        """Hold a place for one call of an attachment's."""
        await self._enter(attachment)
        try:
            yield
        finally:
            self._leave(attachment)

    def jam(self, attachment: int, *, jammed: bool) -> None:
        """Note whether the attachment's last call found somebody else in its way."""
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
            if turn.done() and not turn.cancelled():  # handed over in the same instant
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
        """Give free places to those who wait; each is counted before its taker wakes up."""
        for _ in range(len(self._waiting)):
            attachment, turn = self._waiting.popleft()
            if turn.cancelled():
                continue
            if self._may_enter(attachment):
                self._take(attachment)
                turn.set_result(None)
            else:
                self._waiting.append((attachment, turn))
