"""Where open transactions wait that the server sends in blocks, before their commit.

Messages are kept as they came.  A small transaction stays in memory, a large one goes to a
temporary file; what was rolled back to a savepoint is left out when it is read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from tempfile import SpooledTemporaryFile
from typing import IO, Final

MEMORY: Final = 1 << 20  # bytes of one transaction that stay in memory

_HEAD = Struct(">II")  # (sub)transaction id, length of the message


@dataclass(slots=True)
class _Spool:
    file: IO[bytes]
    aborted: set[int] = field(default_factory=set[int])


class Spools:
    """One spool for each transaction that is open on the server.

    Args:
        memory: bytes after which a transaction moves to a file.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._open: dict[int, _Spool] = {}

    def __len__(self) -> int:
        """Count the transactions that wait."""
        return len(self._open)

    def put(self, xid: int, subxid: int, message: bytes) -> None:
        """Add a message of subtransaction *subxid* of *xid*."""
        if (spool := self._open.get(xid)) is None:
            spool = self._open[xid] = _Spool(SpooledTemporaryFile(self._memory))  # noqa: SIM115
        spool.file.write(_HEAD.pack(subxid, len(message)) + message)

    def abort(self, xid: int, subxid: int) -> None:
        """Forget the whole transaction, or what *subxid* did in it."""
        if xid == subxid:
            self.drop(xid)
        elif (spool := self._open.get(xid)) is not None:
            spool.aborted.add(subxid)

    def drop(self, xid: int) -> None:
        """Forget a transaction."""
        if (spool := self._open.pop(xid, None)) is not None:
            spool.file.close()

    def take(self, xid: int) -> Iterator[bytes]:
        """Read a transaction's messages in their order, one at a time, and forget it."""
        if (spool := self._open.pop(xid, None)) is None:
            return
        with spool.file as file:
            file.seek(0)
            while head := file.read(_HEAD.size):
                subxid, size = _HEAD.unpack(head)
                message = file.read(size)
                if subxid not in spool.aborted:
                    yield message

    def close(self) -> None:
        """Forget everything, files too."""
        for xid in list(self._open):
            self.drop(xid)
