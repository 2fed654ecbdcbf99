"""Hold durable positions back until the standbys have them too.  No I/O.

The checkpoint lies in the database that is followed.  A standby that had the slot's position and
not yet the checkpoint's commit would be promoted with a slot ahead of its checkpoint: a gap.  The
server sends a failover slot nothing that its standbys (`synchronized_standby_slots`) lack.  So when
the stream has come past the checkpoint's commit, they have that commit, and it may be confirmed.
"""

from collections import deque

from walagent.lsn import Lsn

HEARTBEAT = 10.0  # seconds; a standby keeps a copy of the slot only once the slot has moved


class Replicated:
    """Positions of the checkpoint, each with the end of the WAL right after it was written."""

    def __init__(self, start: Lsn) -> None:
        self.held = start  # the last one
        self.released = start  # the last one whose commit the standbys have
        self._waiting = deque[tuple[Lsn, Lsn]]()

    def hold(self, position: Lsn, written: Lsn) -> None:
        """Hold *position* back until the stream has come to *written*."""
        self.held = position
        self._waiting.append((position, written))

    def release(self, received: Lsn) -> None:
        """Release the positions whose commits lie before *received*."""
        while self._waiting and self._waiting[0][1] <= received:
            self.released, _ = self._waiting.popleft()
