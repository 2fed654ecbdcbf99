"""Collect the state of the reader for health checks."""

import time
from collections.abc import Sequence

from walagent.replication.feed import Feed
from walagent.replication.slot_watch import SlotWatch
from walagent.telemetry.log import log

_WITHHELD = "server waits for a standby in synchronized_standby_slots"
_TWICE = 2  # checks; a single one can coincide with a normal wait


class ReaderHealth:
    """Implements `http.health.Health`."""

    def __init__(self, slot: str, watch: SlotWatch) -> None:
        """Start without a stream and without a reason."""
        self._slot = slot
        self._watch = watch
        self._feed: Feed | None = None
        self._trouble: str | None = None  # why there is no stream
        self._withheld = 0  # consecutive checks in which the server waited for a standby
        self.turned_at = time.monotonic()  # for the watchdog: when a part last made progress

    @property
    def streaming(self) -> bool:
        """Return whether this process holds the slot and reads it."""
        return self._feed is not None

    @property
    def progress_age(self) -> float:
        """Return the seconds since the stream last delivered something; normally below 4 s."""
        return time.monotonic() - self._feed.progressed_at if self._feed else 0.0

    @property
    def lag_bytes(self) -> int:
        """Return the WAL after the checkpoint, in bytes."""
        return self._watch.behind

    @property
    def retained_bytes(self) -> int:
        """Return the WAL retained for the slot, in bytes."""
        return self._watch.retained

    @property
    def warnings(self) -> Sequence[str]:
        """Return problems that do not stop ingestion."""
        return self._watch.warnings

    @property
    def reasons(self) -> Sequence[str]:
        """Return why nothing is read or nothing arrives."""
        withheld = _WITHHELD if self._is_withheld else None
        return [reason for reason in (self._trouble, withheld) if reason]

    def turn(self) -> None:
        """Record progress of a part."""
        self.turned_at = time.monotonic()

    def opened(self, feed: Feed) -> None:
        """Record that the stream is open."""
        self._feed, self._trouble = feed, None

    def closed(self) -> None:
        """Record that the stream is closed."""
        self._feed, self._withheld = None, 0

    def wait(self, trouble: str, error: Exception) -> None:
        """Record why there is no stream; log it if it changed."""
        if trouble != self._trouble:
            log.warning("reader.waiting", slot=self._slot, error=error)
        self._trouble = trouble
        self.turn()

    def withhold(self, *, withheld: bool) -> None:
        """Record whether the server waits for a standby; it counts from the second check on."""
        self._withheld = self._withheld + 1 if withheld else 0
        if self._withheld == _TWICE:
            log.warning("reader.blocked", slot=self._slot)

    @property
    def _is_withheld(self) -> bool:
        return self._withheld >= _TWICE
