"""What the server is told about our position, and whether it is still there.  Pure: no clock.

All times are seconds of one monotonic clock, given by the caller.
"""

from enum import Enum, auto
from typing import Final

from walagent.lsn import Lsn

ANSWER: Final = 10.0  # seconds that the server has to answer when we ask


class Pulse(Enum):
    """What a tick of the clock asks for."""

    STATUS = auto()  # say where we are
    PROBE = auto()  # say it, and ask for an answer
    LOST = auto()  # the server did not answer
    STALLED = auto()  # the consumer did not take anything


class Feedback:
    """The positions of one stream and the times at which it heard of the server.

    Args:
        now: when the stream started.
        silence: seconds without a byte after which the server is asked for one.
        stall: seconds that reading may rest because the consumer takes nothing.
    """

    def __init__(self, now: float, *, silence: float, stall: float) -> None:
        self._silence = silence
        self._stall = stall
        self._heard = now
        self._asked: float | None = None
        self._resting_since: float | None = None
        self.flushed = Lsn(0)
        self._told = Lsn(0)

    def confirm(self, lsn: Lsn, received: Lsn) -> bool:
        """Move the flushed position, never back and never past *received*.

        Returns:
            Whether there is something new to tell.
        """
        self.flushed = max(self.flushed, min(lsn, received))
        return self.flushed > self._told

    def tell(self) -> Lsn:
        """Give the flushed position, to be sent now."""
        self._told = self.flushed
        return self.flushed

    def heard(self, now: float) -> None:
        """Note that bytes came."""
        self._heard, self._asked = now, None

    def rest(self, now: float) -> None:
        """Note that reading stops, because the buffer is full."""
        if self._resting_since is None:
            self._resting_since = now

    def resume(self, now: float) -> None:
        """Note that reading goes on; silence counts from here."""
        if self._resting_since is not None:
            self._resting_since = None
            self.heard(now)

    def pulse(self, now: float) -> Pulse:
        """Decide what is to be done at *now*."""
        if self._resting_since is not None:
            return Pulse.STALLED if now - self._resting_since >= self._stall else Pulse.STATUS
        if self._asked is not None and now - self._asked >= ANSWER:
            return Pulse.LOST
        if self._asked is None and now - self._heard >= self._silence:
            self._asked = now
            return Pulse.PROBE
        return Pulse.STATUS
