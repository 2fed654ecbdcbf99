"""The log of one shape: a snapshot in chunks, then the changes of each transaction.

Offsets are `<lsn>_<op>`: `0_<n>` within the snapshot, then the commit LSN of a transaction and the
position in it.  An answer ends with a chunk: a transaction is one, or several if it is larger.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

CHUNK_BYTES: Final = 10 << 20


class Offset(NamedTuple):
    """A position in the log of a shape."""

    lsn: int
    op: int

    def __str__(self) -> str:
        """Return it as the protocol writes it."""
        return f"{self.lsn}_{'inf' if self.op == INFINITE else self.op}"


INFINITE: Final = 1 << 62
_OFFSET: Final = re.compile(r"([0-9]{1,20})_(inf|[0-9]{1,18})")


def parse_offset(text: str) -> Offset | None:
    """Return the offset that *text* denotes; None if it is none."""
    if (found := _OFFSET.fullmatch(text)) is None:
        return None
    return Offset(int(found[1]), INFINITE if found[2] == "inf" else int(found[2]))


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one transaction: all of them, or a part of a large one."""

    end: Offset
    messages: tuple[bytes, ...]
    size: int


class Entry:
    """The messages of one transaction, before they are in the log.

    Args:
        room: bytes that the log has left.
        chunk: bytes of an answer, about.
    """

    __slots__ = ("_chunk", "_full", "_messages", "_op", "_room", "_size", "size")

    def __init__(self, room: int, chunk: int) -> None:
        self._room = room
        self._chunk = chunk
        self._full: list[tuple[int, tuple[bytes, ...], int]] = []
        self._messages: list[bytes] = []  # of the last batch
        self._size = 0
        self._op = 0
        self.size = 0  # bytes in all

    def add(self, op: int, message: bytes) -> bool:
        """Add a message, and return whether there is room for all so far.

        Args:
            op: its position in the transaction; the offset after it is one more.
        """
        if self._size >= self._chunk:
            self._full.append((self._op, tuple(self._messages), self._size))
            self._messages, self._size = [], 0
        self._op = op
        self._messages.append(message)
        self._size += len(message)
        self.size += len(message)
        return self.size <= self._room

    def replace_last(self, message: bytes) -> bool:
        """Put a message in the place of the last one; return whether there is still room."""
        more = len(message) - len(self._messages[-1])
        self._messages[-1] = message
        self._size += more
        self.size += more
        return self.size <= self._room

    def shrink(self) -> bool:
        """Remove a part, and return whether one is left: to free all at once takes long."""
        self._messages = []
        if self._full:
            self._full.pop()
        return bool(self._full)

    def batches(self, lsn: int) -> Iterator[Batch]:
        """Yield all of it, as the log has it."""
        for op, messages, size in self._full:
            yield Batch(Offset(lsn, op + 1), messages, size)
        if self._messages:
            yield Batch(Offset(lsn, self._op + 1), tuple(self._messages), self._size)


class ShapeLog:
    """The changes of a shape since its snapshot, up to a number of bytes.

    Args:
        limit: bytes; what does not fit ends the shape.
        chunk: bytes of an answer, about.
    """

    def __init__(self, limit: int, chunk: int = CHUNK_BYTES) -> None:
        self._limit = limit
        self._chunk = chunk
        self._batches: list[Batch] = []
        self._ends: list[Offset] = []
        self.size = 0
        self.last: Offset | None = None

    def entry(self) -> Entry:
        """Return where the messages of the next transaction are collected."""
        return Entry(self._limit - self.size, self._chunk)

    def append(self, lsn: int, entry: Entry) -> None:
        """Append the messages of one transaction, for which there is room."""
        for batch in entry.batches(lsn):
            self.last = batch.end
            self._batches.append(batch)
            self._ends.append(batch.end)
        self.size += entry.size

    def has_after(self, offset: Offset) -> bool:
        """Return whether there are messages after *offset*."""
        return self.last is not None and self.last > offset

    def after(self, offset: Offset) -> tuple[list[bytes], Offset, bool]:
        """Return messages after *offset*, the offset they end at, and whether that is the end."""
        found: list[bytes] = []
        size, index, end = 0, bisect_right(self._ends, offset), offset
        while index < len(self._batches) and size < self._chunk:
            batch = self._batches[index]
            found.extend(batch.messages)
            size += batch.size
            end = batch.end
            index += 1
        return found, end, index == len(self._batches)
