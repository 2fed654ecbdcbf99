"""Where open transactions wait that the server sends in blocks, before their commit.

Messages are kept as they came.  A small transaction stays in memory, a large one goes to a
temporary file; what was rolled back to a savepoint is left out when it is read.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from struct import Struct
from tempfile import SpooledTemporaryFile, gettempdir
from typing import IO, Final

from walagent.errors import StreamLostError

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
        """Add a message of subtransaction *subxid* of *xid*.

        Raises:
            StreamLostError: there is no room for it; the server has it still.
        """
        with _in_files():
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
            _close(spool.file)

    def take(self, xid: int) -> Iterator[bytes]:
        """Read a transaction's messages in their order, one at a time, and forget it.

        Raises:
            StreamLostError: there was no room for the last of it; the server has it still.
        """
        if (spool := self._open.pop(xid, None)) is None:
            return
        file = spool.file
        try:
            with _in_files():
                file.seek(0)  # writes out what is held back
            while head := file.read(_HEAD.size):
                subxid, size = _HEAD.unpack(head)
                message = file.read(size)
                if subxid not in spool.aborted:
                    yield message
        finally:
            _close(file)

    def close(self) -> None:
        """Forget everything, files too."""
        for xid in list(self._open):
            self.drop(xid)


@contextmanager
def _in_files() -> Generator[None]:
    """Say of a file that cannot be written where it is."""
    try:
        yield
    except OSError as error:
        raise StreamLostError(
            f"an open transaction cannot be put aside in {gettempdir()}: {error.strerror}",
            hint="make room there, let TMPDIR name another folder, or use replication.protocol 1",
        ) from error


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # it would write out what is held back
        file.close()
