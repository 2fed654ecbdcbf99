"""Lets others read the stream beside its consumer, which never waits for them.

A reader that lags loses what does not fit and is told so by a `Missed`, which also ends
the transaction that was open for it; what follows starts again with a Begin.  After a broken
connection the server repeats transactions that were not confirmed, and a Begin may follow a
Begin: the one before was cut off.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from walagent.change import Begin, Idle, Item, Piece

_LIMIT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Missed:
    """The reader was too slow: this many changes and transactions' marks never reached it."""

    count: int


class FanOut:
    """Gives every subscriber the same items; belongs to one event loop."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    def publish(self, items: Sequence[Item]) -> None:
        """Pass items on; returns at once, whoever lags."""
        for subscription in self._subscriptions:
            subscription.offer(items)

    @contextmanager
    def subscribe(self, limit: int = _LIMIT) -> "Generator[Subscription]":
        """Listen from now on, starting with the next transaction that begins.

        At most *limit* changes and marks wait for this reader.
        """
        subscription = Subscription(limit)
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)


class Subscription:
    """One reader's queue; iterate over it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queue: deque[Item] = deque()
        self._size = 0
        self._missed = 0
        self._whole = False  # whether what comes next continues what was queued
        self._started = False  # what was under way before the reader came is no loss
        self._arrival = asyncio.Event()

    def offer(self, items: Sequence[Item]) -> None:
        """Queue what fits."""
        for item in items:
            self._take(item)
        if self._queue or self._missed:
            self._arrival.set()

    def _take(self, item: Item) -> None:
        size = _size(item)
        if isinstance(item, Begin) and self._size + size <= self._limit:
            self._whole = self._started = True
        if not self._whole:
            self._missed += size if self._started and not isinstance(item, Idle) else 0
        elif self._size + size > self._limit:
            self._overflow(size)
        else:
            self._queue.append(item)
            self._size += size

    def _overflow(self, size: int) -> None:
        """Drop everything: whole transactions are kept or lost, never halves."""
        self._missed += self._size + size
        self._queue.clear()
        self._size = 0
        self._whole = False

    def __aiter__(self) -> AsyncIterator[Item | Missed]:
        """Yield items in order, with a `Missed` in place of what was lost."""
        return self

    async def __anext__(self) -> Item | Missed:
        """Wait for the next item."""
        while not self._queue and not self._missed:
            self._arrival.clear()
            await self._arrival.wait()
        if self._missed:
            missed, self._missed = Missed(self._missed), 0
            return missed
        item = self._queue.popleft()
        self._size -= _size(item)
        return item


def _size(item: Item) -> int:
    return len(item.changes) if isinstance(item, Piece) else 1
