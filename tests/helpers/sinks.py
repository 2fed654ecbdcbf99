"""A durable sink of the tests' own, for what several sinks do together."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from walagent.domain.change import Begin, Commit, Idle, Item, Op, Piece
from walagent.postgres.lsn import Lsn
from walagent.replication.sinks import Table, Want, Wants


@dataclass
class Disk:
    """What a journal has saved; it outlives the journal."""

    position: Lsn
    rows: list[object] = field(default_factory=list)  # the ids of the rows that were inserted


class Journal:
    """Writes down the ids of inserted rows, transaction by transaction; implements `Sink`.

    One that is lazy saves only when it is asked to, as a sink does that writes in the background.
    """

    def __init__(
        self, disk: Disk, *tables: Table, lazy: bool = False, table: str | None = None
    ) -> None:
        """Start from what is on *disk*; note rows of *table* alone, if one is named."""
        self.seen: list[Lsn] = []  # the commit LSNs of all transactions that it was given
        self.gate = asyncio.Event()  # while it is cleared, nothing is taken
        self.gate.set()
        self._disk = disk
        self._tables = dict.fromkeys(tables, Want())
        self._lazy = lazy
        self._table = table
        self._open: list[object] = []
        self._unsaved: list[object] = []
        self._position = disk.position

    def tables(self) -> Wants:
        """Return what it was made for."""
        return self._tables

    @property
    def durable(self) -> Lsn:
        """What is on disk."""
        return self._disk.position

    async def take(self, items: Sequence[Item]) -> None:
        """Write items down, and save the whole transactions."""
        await self.gate.wait()
        for item in items:
            self._take(item)
        if not self._lazy:
            self.save()

    def save(self) -> None:
        """Put on disk what whole transactions have brought."""
        self._disk.rows += self._unsaved
        self._unsaved, self._disk.position = [], max(self._disk.position, self._position)

    def _take(self, item: Item) -> None:
        match item:
            case Begin(_, commit_lsn):
                self.seen.append(commit_lsn)
                self._open = []
            case Piece(changes):
                self._open += [
                    change.new["id"]
                    for change in changes
                    if change.op is Op.INSERT
                    and change.new is not None
                    and self._table in {None, change.relation.name}
                ]
            case Commit(_, end):
                self._unsaved += self._open
                self._position = end
            case Idle(end):
                self._position = max(self._position, end)
            case _:
                pass
