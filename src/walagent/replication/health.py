"""How the reader is doing: its parts note facts, health checks read them."""

import time
from collections.abc import Sequence

from walagent.log import log
from walagent.replication.feed import Feed
from walagent.replication.slot_watch import SlotWatch

_WITHHELD = (
    "the server keeps changes back until the standbys in synchronized_standby_slots have them"
)


class ReaderHealth:
    """Implements `http.health.Health`."""

    def __init__(self, slot: str, watch: SlotWatch) -> None:
        """Begin without a stream, and without trouble."""
        self._slot = slot
        self._watch = watch
        self._feed: Feed | None = None
        self._trouble: str | None = None  # why there is no stream
        self._withheld = 0  # looks in a row that have seen the server wait for a standby
        self.turned_at = time.monotonic()  # for the watchdog: when a part last did something

    @property
    def streaming(self) -> bool:
        """Whether this process holds the slot and reads from it."""
        return self._feed is not None

    @property
    def progress_age(self) -> float:
        """Seconds since the stream last brought something; it does several times in 4 s."""
        return time.monotonic() - self._feed.progressed_at if self._feed else 0.0

    @property
    def lag_bytes(self) -> int:
        """WAL that the server has and the checkpoint does not cover."""
        return self._watch.behind

    @property
    def retained_bytes(self) -> int:
        """WAL that the server keeps for the slot."""
        return self._watch.retained

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although changes are ingested."""
        return self._watch.warnings

    @property
    def reasons(self) -> Sequence[str]:
        """Why nothing is read, or nothing arrives."""
        withheld = _WITHHELD if self._is_withheld else None
        return [reason for reason in (self._trouble, withheld) if reason]

    def turn(self) -> None:
        """Note that a part did something."""
        self.turned_at = time.monotonic()

    def opened(self, feed: Feed) -> None:
        """Note that the stream is open."""
        self._feed, self._trouble = feed, None

    def closed(self) -> None:
        """Note that there is no stream any more."""
        self._feed, self._withheld = None, 0

    def wait(self, trouble: str, error: Exception) -> None:
        """Note why there is no stream; logged unless it is the same as before."""
        if trouble != self._trouble:
            log.warning("reader.waiting", slot=self._slot, error=error)
        self._trouble = trouble
        self.turn()

    def withhold(self, *, withheld: bool) -> None:
        """Note whether the server waited for a standby at a look; it counts from the second on."""
        self._withheld = self._withheld + 1 if withheld else 0
        if self._withheld == _TWICE:
            log.warning("reader.blocked", slot=self._slot)

    @property
    def _is_withheld(self) -> bool:
        return self._withheld >= _TWICE


_TWICE = 2
