"""Transactions of the last minute, which snapshots might not show yet."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from walagent.domain.change import Begin, Change
from walagent.replication.sinks import Table
from walagent.sync.snapshot import Visible

_RING_SECONDS: Final = 60.0
_MOST_RECEIVED: Final = 1 << 14


@dataclass(slots=True)
class Transaction:
    """What a transaction changed in tables that have shapes.

    Args:
        tables: all that it changed, if anybody asks.
        shaped: those whose changes are kept.
    """

    begin: Begin
    changes: list[Change] = field(default_factory=list[Change])
    tables: set[Table] = field(default_factory=set[Table])
    shaped: dict[Table, None] = field(default_factory=dict[Table, None])
    weight: int = 0
    at: float = 0.0

    def touches(self, name: Table) -> bool:
        """Whether it changed rows of a table."""
        return name in self.shaped


class RecentTransactions:
    """Keeps transactions for snapshots that are read, and the IDs of those received.

    Args:
        most: bytes of the changes that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ring: deque[Transaction] = deque()
        self._weight = 0
        self._received: dict[int, int] = {}  # commit LSNs of the last transactions by their IDs

    def forget_changes(self) -> None:
        """Drop what is kept: something was missed."""
        self._ring.clear()
        self._weight = 0

    def forget_all(self) -> None:
        """Expect another stream."""
        self.forget_changes()
        self._received.clear()

    def receive(self, xid: int, commit_lsn: int) -> None:
        """Note that a transaction was received."""
        self._received[xid] = commit_lsn
        if len(self._received) > _MOST_RECEIVED:
            del self._received[next(iter(self._received))]

    def keep(self, transaction: Transaction) -> None:
        """Keep a transaction for about a minute."""
        self._ring.append(transaction)
        self._weight += transaction.weight
        while self._ring and (
            self._weight > self._most or transaction.at - self._ring[0].at > _RING_SECONDS
        ):
            self._weight -= self._ring.popleft().weight

    def of(self, name: Table) -> list[Transaction]:
        """Return those kept that changed a table."""
        return [each for each in self._ring if each.touches(name)]

    def unseen(self, visible: Visible) -> dict[int, int]:
        """Return the transactions that were received and that a snapshot lacks.

        A commit reaches the stream before snapshots show it; long before, if it waits for a
        standby.
        """
        return {xid: self._received[xid] for xid in visible.lacking(self._received)}
