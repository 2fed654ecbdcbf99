"""What transactions changed: the one that arrives, and those that snapshots might not show yet."""

import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from walagent.domain.change import Begin, Change, Op, Relation, Row
from walagent.replication.sinks import Table
from walagent.sync.snapshot import Visible
from walagent.wal.rowcode import make_change

_RING_SECONDS: Final = 60.0
_MOST_RECEIVED: Final = 1 << 14
_PORTION: Final = 1 << 16  # bytes, as sent
_OBJECT: Final = 500  # bytes that a decoded change takes beside its values, about

_Packed = tuple[int, Op, int, Row | None, Row | None]


class Changes:
    """Changes in their order; those of a large transaction as bytes.

    A decoded change of a small row takes ten times as much memory.
    """

    def __init__(self) -> None:
        self._packed: list[tuple[bytes, Sequence[Relation]]] = []
        self._loose: list[Change] = []
        self._loose_bytes = self._packed_bytes = 0

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._packed or self._loose)

    @property
    def weight(self) -> int:
        """Return the bytes that they take, about."""
        return self._packed_bytes + self._loose_bytes + _OBJECT * len(self._loose)

    def add(self, changes: Sequence[Change], weight: int) -> None:
        """Add some.

        Args:
            weight: bytes that the server sent for them.
        """
        self._loose += changes
        self._loose_bytes += weight
        if self._loose_bytes >= _PORTION:
            self._pack()

    def _pack(self) -> None:
        relations = {id(change.relation): change.relation for change in self._loose}
        numbers = {each: number for number, each in enumerate(relations)}
        rows: list[_Packed] = [
            (c.ordinal, c.op, numbers[id(c.relation)], c.new, c.old) for c in self._loose
        ]
        packed = pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)
        self._packed.append((packed, [*relations.values()]))
        self._packed_bytes += len(packed)
        self._loose, self._loose_bytes = [], 0

    def portions(self, begin: Begin) -> Iterator[Sequence[Change]]:
        """Yield them in portions of a few milliseconds of work."""
        lsn, xid = begin.commit_lsn, begin.xid
        for packed, relations in self._packed:
            rows: list[_Packed] = pickle.loads(packed)  # noqa: S301 - see _pack
            yield [
                make_change(lsn, ordinal, op, relations[number], new, old, xid)
                for ordinal, op, number, new, old in rows
            ]
        if self._loose:
            yield self._loose


@dataclass(slots=True)
class Transaction:
    """What a transaction changed in tables that have shapes.

    Args:
        tables: all that it changed, if anybody asks.
        shaped: those whose changes are kept.
    """

    begin: Begin
    changes: Changes = field(default_factory=Changes)
    tables: set[Table] = field(default_factory=set[Table])
    shaped: dict[Table, None] = field(default_factory=dict[Table, None])
    at: float = 0.0

    @property
    def weight(self) -> int:
        """Return the bytes that its changes take, about."""
        return self.changes.weight

    def portions(self) -> Iterator[Sequence[Change]]:
        """Yield its changes in their order."""
        return self.changes.portions(self.begin)

    def touches(self, name: Table) -> bool:
        """Whether it changed rows of a table."""
        return name in self.shaped


class WaitingTransactions:
    """What a shape must be given once its snapshot is read.

    Args:
        most: bytes of their changes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._waiting: deque[Transaction] = deque()

    def __len__(self) -> int:
        """Count them."""
        return len(self._waiting)

    @property
    def xids(self) -> set[int]:
        """Return their IDs."""
        return {each.begin.xid for each in self._waiting}

    def add(self, transaction: Transaction) -> bool:
        """Add the next one; return whether there was room."""
        self._waiting.append(transaction)
        self._weight += transaction.weight
        return self._weight <= self._most

    def take(self) -> Transaction:
        """Remove the first one."""
        found = self._waiting.popleft()
        self._weight -= found.weight
        return found


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

    def of(self, name: Table, most: int) -> "WaitingTransactions":
        """Return those kept that changed a table, for a shape that is made.

        Args:
            most: bytes that wait for it.
        """
        found = WaitingTransactions(most)
        for each in self._ring:
            if each.touches(name):
                found.add(each)
        return found

    def unseen(self, visible: Visible) -> dict[int, int]:
        """Return the transactions that were received and that a snapshot lacks.

        A commit reaches the stream before snapshots show it; long before, if it waits for a
        standby.
        """
        return {xid: self._received[xid] for xid in visible.lacking(self._received)}
