"""What every reader of a stream keeps: which transaction is open, and how far it has read."""

from walagent.change import Begin, Commit, Idle
from walagent.errors import DecodeError
from walagent.lsn import Lsn
from walagent.wal.protocol import parse_keepalive


class Progress:
    """The open transaction, and the positions behind it.

    Args:
        start: transactions whose commit LSN is below are left out: they are in the checkpoint.
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
        """Say whether the server has asked for a status since the last call."""
        requested, self._requested = self._requested, False
        return requested

    def _open(self, begin: Begin, offset: int) -> None:
        if self._begin is not None:
            raise DecodeError("a transaction begins within another", offset=offset)
        self._begin, self._ordinal = begin, 0
        # The server decides by the same rule; a commit LSN is where the commit record starts.
        self._skipping = begin.commit_lsn < self._start  # planted: skip-the-border

    def _complete(self, commit: Commit, offset: int) -> Commit | None:
        """End the transaction; None if it was left out."""
        if self._transaction(offset).commit_lsn != commit.commit_lsn:
            raise DecodeError("a commit of another transaction", offset=offset)
        skipped, self._begin, self._skipping = self._skipping, None, False
        self.received = max(self.received, commit.end_lsn)
        return None if skipped else commit

    def _transaction(self, offset: int) -> Begin:
        if self._begin is None:
            raise DecodeError("no transaction is open", offset=offset)
        return self._begin

    def _idle(self, data: bytes, *, busy: bool = False) -> Idle | None:
        """Take a keepalive in; while a transaction is incomplete its position means nothing."""
        keepalive = parse_keepalive(data)
        self._requested |= keepalive.reply_requested
        if busy or self._begin is not None:
            return None
        self.received = max(self.received, keepalive.wal_end)
        return Idle(keepalive.wal_end, keepalive.reply_requested)
