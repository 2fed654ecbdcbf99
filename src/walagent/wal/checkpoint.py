"""The position of a stream: the open transaction, and how far the stream was read."""

from walagent.domain.change import Begin, Commit, Idle
from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn
from walagent.wal.protocol import parse_keepalive


class StreamPosition:
    """The open transaction and the positions that follow from it.

    Args:
        start: transactions with a lower commit LSN are skipped: the checkpoint includes them.
    """

    def __init__(self, start: Lsn) -> None:
        self._start = start
        self._begin: Begin | None = None
        self._skipping = False
        self._ordinal = 0
        self._requested = False
        self.received = Lsn(0)
        self.weight = 0

    def take_request(self) -> bool:
        """Return whether the server has requested a status since the last call."""
        requested, self._requested = self._requested, False
        return requested

    def _open(self, begin: Begin, offset: int) -> None:
        if self._begin is not None:
            raise DecodeError("Begin message within a transaction", offset=offset)
        self._begin, self._ordinal = begin, 0
        # The server applies the same rule; a commit LSN is the start of the commit record.
        self._skipping = begin.commit_lsn < self._start  # planted: skip-the-border

    def _complete(self, commit: Commit, offset: int) -> Commit | None:
        """End the transaction and return its commit; None if it was skipped."""
        if self._transaction(offset).commit_lsn != commit.commit_lsn:
            raise DecodeError("Commit message of another transaction", offset=offset)
        skipped, self._begin, self._skipping = self._skipping, None, False
        self.received = max(self.received, commit.end_lsn)
        return None if skipped else commit

    def _transaction(self, offset: int) -> Begin:
        if self._begin is None:
            raise DecodeError("message outside a transaction", offset=offset)
        return self._begin

    def _idle(self, data: bytes, *, busy: bool = False) -> Idle | None:
        """Parse a keepalive; its position does not count while a transaction is incomplete."""
        keepalive = parse_keepalive(data)
        self._requested |= keepalive.reply_requested
        if busy or self._begin is not None:
            return None
        self.received = max(self.received, keepalive.wal_end)
        return Idle(keepalive.wal_end, keepalive.reply_requested)
