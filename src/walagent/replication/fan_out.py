"""Send items to any number of subscribers, without waiting for them.

A subscriber that lags loses what does not fit and receives a `Missed`, which also ends its open
transaction; the next item is a Begin.  After a lost connection the server resends transactions that
were not confirmed, and a Begin can follow a Begin: the transaction before was cut off.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from walagent.domain.change import Begin, Idle, Item, Piece
from walagent.replication.sinks import Answers, Table, Want, Wants

_LIMIT: Final = 10_000
_BYTES: Final = 32 << 20
_NONE: Final[Wants] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Missed:
    """The subscriber lagged: it did not receive this many changes, begins and commits."""

    count: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What follows does not continue what came before; changes between are not sent.

    Args:
        tables: whose changes; None: all, and LSNs can be lower than before.
    """

    tables: frozenset[Table] | None = None


class FanOut:
    """Sends the same items to every subscriber; implements `Sink`.  Use it in one event loop."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self.answers = Answers()  # filled by what requests the tables

    @property
    def durable(self) -> None:
        """None: the slot is never held back."""
        return

    def tables(self) -> Wants:
        """Return the tables that the present subscribers need."""
        wants: dict[Table, Want] = {}
        for subscription in self._subscriptions:
            for table, want in subscription.tables.items():
                known = wants.get(table, want)
                only = want.inserts_only and known.inserts_only
                wants[table] = Want(inserts_only=only, entry=known.entry or want.entry)
        return wants

    async def take(self, items: Sequence[Item]) -> None:
        """Queue items for each subscriber; return at once."""
        for subscription in self._subscriptions:
            subscription.offer(items)

    def interrupt(self, tables: frozenset[Table] | None = None) -> None:
        """Let each subscriber know that the stream has a gap; see `Interrupted`."""
        for subscription in self._subscriptions:
            subscription.interrupt(Interrupted(tables))

    @contextmanager
    def subscribe(self, tables: Wants = _NONE, *, limit: int = _LIMIT) -> "Generator[Subscription]":
        """Receive items from now on, starting with the next transaction that begins.

        Args:
            tables: what the stream must carry for this subscriber, who receives all of the stream.
            limit: the most changes, begins and commits that are queued; their bytes have a limit,
                too, but for a single piece.
        """
        subscription = Subscription(dict(tables), limit)
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)


class Subscription:
    """One subscriber's queue; iterate over it."""

    def __init__(self, tables: Mapping[Table, Want], limit: int) -> None:
        self.tables = tables
        self._limit = limit
        self._queue: deque[Item | Interrupted] = deque()
        self._size = self._bytes = 0
        self._missed = 0
        self._whole = False  # whether the next item continues what was queued
        self._started = (
            False  # a transaction that began before the subscription does not count as missed
        )
        self._arrival = asyncio.Event()

    def offer(self, items: Sequence[Item]) -> None:
        """Queue what fits."""
        for item in items:
            self._take(item)
        if self._queue or self._missed:
            self._arrival.set()

    def interrupt(self, gap: Interrupted) -> None:
        """Queue a gap, whatever the limit; without tables, in place of all that is queued."""
        if gap.tables is None:
            self._queue.clear()
            self._size = self._bytes = self._missed = 0
            self._whole = self._started = False
        self._queue.append(gap)
        self._size += 1
        self._arrival.set()

    def _take(self, item: Item) -> None:
        size, weight = _size(item), _weight(item)
        if isinstance(item, Begin) and self._size + size <= self._limit:
            self._whole = self._started = True
        if not self._whole:
            self._missed += size if self._started and not isinstance(item, Idle) else 0
        elif self._size + size > self._limit or (
            self._bytes and weight > max(0, _BYTES - self._bytes)
        ):
            self._overflow(size)
        else:
            self._queue.append(item)
            self._size += size
            self._bytes += weight

    def _overflow(self, size: int) -> None:
        """Drop everything: transactions are kept or lost as a whole."""
        self._missed += self._size + size
        self._queue.clear()
        self._size = self._bytes = 0
        self._whole = False

    def __aiter__(self) -> AsyncIterator[Item | Missed | Interrupted]:
        """Yield items in order, with a `Missed` in place of what was dropped."""
        return self

    async def __anext__(self) -> Item | Missed | Interrupted:
        """Wait for the next item."""
        while not self._queue and not self._missed:
            self._arrival.clear()
            await self._arrival.wait()
        if self._missed:
            missed, self._missed = Missed(self._missed), 0
            return missed
        item = self._queue.popleft()
        self._size -= _size(item)
        self._bytes -= _weight(item)
        return item


def _size(item: Item | Interrupted) -> int:
    return len(item.changes) if isinstance(item, Piece) else 1


def _weight(item: Item | Interrupted) -> int:
    return item.weight if isinstance(item, Piece) else 0
