"""Standby status updates and server liveness.  Pure: no clock.

Times are seconds of one monotonic clock that the caller reads.
"""

from enum import Enum, auto
from typing import Final

from walagent.postgres.lsn import Lsn

ANSWER: Final = 10.0  # seconds that the server has to reply to a probe


class Pulse(Enum):
    """What a tick of the timer requires."""

    STATUS = auto()  # send a status update
    PROBE = auto()  # send a status update that requests a reply
    LOST = auto()  # the server did not reply
    STALLED = auto()  # the consumer did not take anything


class Feedback:
    """The confirmed position of one stream, and when the server was last received from.

    Args:
        now: when the stream started.
        silence: seconds without a byte from the server, after which it is probed.
        stall: seconds that reading can be suspended because the consumer takes nothing.
    """

    def __init__(self, now: float, *, silence: float, stall: float) -> None:
        self._silence = silence
        self._stall = stall
        self._last_received = now
        self._probed_at: float | None = None
        self._suspended_at: float | None = None
        self.flushed = Lsn(0)
        self._sent = Lsn(0)

    def confirm(self, lsn: Lsn, received: Lsn) -> bool:
        """Advance the flushed position, but not beyond *received*; it never moves backwards.

        Returns:
            Whether there is a new position to send.
        """
        self.flushed = max(self.flushed, min(lsn, received))
        return self.flushed > self._sent

    def take_flushed(self) -> Lsn:
        """Return the flushed position, which is then counted as sent."""
        self._sent = self.flushed
        return self.flushed

    def received(self, now: float) -> None:
        """Record that bytes were received."""
        self._last_received, self._probed_at = now, None

    def rest(self, now: float) -> None:
        """Record that reading is suspended because the buffer is full."""
        if self._suspended_at is None:
            self._suspended_at = now

    def resume(self, now: float) -> None:
        """Record that reading continues; silence counts from now."""
        if self._suspended_at is not None:
            self._suspended_at = None
            self.received(now)

    def pulse(self, now: float) -> Pulse:
        """Return what is required at *now*."""
        if self._suspended_at is not None:
            return Pulse.STALLED if now - self._suspended_at >= self._stall else Pulse.STATUS
        if self._probed_at is not None and now - self._probed_at >= ANSWER:
            return Pulse.LOST
        if self._probed_at is None and now - self._last_received >= self._silence:
            self._probed_at = now
            return Pulse.PROBE
        return Pulse.STATUS
