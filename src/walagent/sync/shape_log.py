"""The log of one shape: a snapshot in chunks, then the changes of each transaction.

Offsets are `<lsn>_<op>`: `0_<n>` within the snapshot, then the commit LSN of a transaction and the
position in it.  An answer ends with a chunk: a transaction is one, or several if it is larger.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
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

    def append(
        self, lsn: int, messages: Sequence[bytes], last_op: int, op_of: Callable[[int], int]
    ) -> bool:
        """Append the messages of one transaction; return whether they fit.

        Args:
            last_op: where the offset after the last one is.
            op_of: the position of a message, by its number.
        """
        size = sum(map(len, messages))
        if self.size + size > self._limit:
            return False
        self.size += size
        start = 0
        if size > self._chunk:
            until = list(accumulate(map(len, messages)))  # bytes up to the end of each
            while (at := self._full(until, start)) < len(messages) - 1:
                part = until[at] - (until[start - 1] if start else 0)
                self._add(Batch(Offset(lsn, op_of(at) + 1), tuple(messages[start : at + 1]), part))
                start, size = at + 1, size - part
        self._add(Batch(Offset(lsn, last_op), tuple(messages[start:]), size))
        return True

    def _full(self, until: Sequence[int], start: int) -> int:
        """Return the message by which a chunk from *start* on is full."""
        return bisect_left(until, (until[start - 1] if start else 0) + self._chunk, start)

    def _add(self, batch: Batch) -> None:
        self.last = batch.end
        self._batches.append(batch)
        self._ends.append(batch.end)

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
