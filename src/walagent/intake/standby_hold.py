"""Delay confirmation until standbys have the WAL.  No I/O.

The checkpoint is in the database that the reader follows.  A standby that has the slot's position
but not the checkpoint's commit would be promoted with a slot ahead of its checkpoint: a gap.  The
server sends a failover slot only what its standbys (`synchronized_standby_slots`) have.  So when
the stream has passed the checkpoint's commit, they have that commit, and it can be confirmed.
"""

from collections import deque

from walagent.postgres.lsn import Lsn

HEARTBEAT = 10.0  # seconds; a standby keeps a copy of the slot only after the slot has advanced


class StandbyHold:
    """Positions of the checkpoint, each with the end of the WAL after it was written."""

    def __init__(self, start: Lsn) -> None:
        self.held = start  # the last one
        self.released = start  # the last one whose commit the standbys have
        self._waiting = deque[tuple[Lsn, Lsn]]()

    def hold(self, position: Lsn, written: Lsn) -> None:
        """Hold *position* back until the stream has passed *written*."""
        self.held = position
        self._waiting.append((position, written))

    def release(self, received: Lsn) -> None:
        """Release the positions whose commits lie before *received*."""
        while self._waiting and self._waiting[0][1] <= received:
            self.released, _ = self._waiting.popleft()
