"""Pass items from the stream to its sinks, and confirm what they have."""

import time
from collections.abc import Sequence
from typing import Never, Protocol

from walagent.base import faults
from walagent.domain.change import Begin, Commit, Idle, Item
from walagent.postgres.lsn import Lsn
from walagent.replication.sinks import ResubscribeError, Sink, Table, first_needed, tables_of


class Stream(Protocol):
    """The part of a replication stream that a feed uses."""

    async def next_batch(self) -> list[Item]:
        """Wait for items, and return all that have arrived."""
        ...

    def confirm(self, lsn: Lsn) -> None:
        """Mark everything up to *lsn* as durable."""
        ...


class Feed:
    """Passes batches to all sinks and confirms the lowest position of the durable ones.

    `take_one()` is one step of `run()`; tests call it.
    """

    def __init__(
        self, stream: Stream, sinks: Sequence[Sink], carried: frozenset[Table] | None = None
    ) -> None:
        """Store the parameters; nothing is read yet.

        Args:
            sinks: in the order in which they receive items.
            carried: the tables of the stream, if none can be added while it is open.
        """
        self._stream = stream
        self._carried = carried
        start = first_needed(sinks, Lsn(0))
        self._consumers = [_Consumer(sink, start) for sink in sinks]
        self._sinks = sinks
        self._confirmed = start
        self.passed = Lsn(0)  # end of the last transaction or idle position that all sinks took
        self.progressed_at = time.monotonic()  # when the stream last delivered something

    async def run(self) -> Never:
        """Feed the sinks until the stream ends.

        Raises:
            StreamLostError, DatabaseLostError: start over from the checkpoint.
            FencedError: a newer reader is at work.
            DecodeError: the WAL cannot be decoded; nothing of it was confirmed.
            ResubscribeError: open the stream again, for other tables.
        """
        while True:
            await self.take_one()

    async def take_one(self) -> None:
        """Pass on what has arrived."""
        batch = await self._stream.next_batch()
        self.progressed_at = time.monotonic()
        passed = _end_of(batch, self.passed)
        for consumer in self._consumers:
            await consumer.take(batch)  # planted: confirm-before-commit
        self.passed = passed
        self._confirm()
        if self._carried is not None and not (tables := tables_of(self._sinks)) <= self._carried:
            raise ResubscribeError(tables)

    def _confirm(self) -> None:
        """Confirm the lowest position of the durable sinks; without one, what was passed on."""
        durable = first_needed(self._sinks, self.passed)
        if durable > self._confirmed:
            self._confirmed = durable
            self._stream.confirm(durable)
            faults.hit("intake.confirmed")


class _Consumer:
    """A sink; skips what it has if another sink is behind it."""

    def __init__(self, sink: Sink, start: Lsn) -> None:
        self._sink = sink
        has = sink.durable
        self._ahead = has if has is not None and has > start else None

    async def take(self, batch: Sequence[Item]) -> None:
        items = batch if self._ahead is None else self._missing(batch, self._ahead)
        if items:
            await self._sink.take(items)

    def _missing(self, batch: Sequence[Item], ahead: Lsn) -> Sequence[Item]:
        """Skip what was durable when the stream was opened; commit LSNs only increase."""
        for n, item in enumerate(batch):
            if isinstance(item, Begin) and item.commit_lsn >= ahead:
                self._ahead = None
                return batch[n:]
        return []


def _end_of(batch: Sequence[Item], otherwise: Lsn) -> Lsn:
    """Return the end of the last whole transaction, or the last idle position."""
    for item in reversed(batch):
        if isinstance(item, Commit):
            return item.end_lsn
        if isinstance(item, Idle):
            return item.wal_end
    return otherwise
