"""Store streamed transactions until they commit.

Messages are kept unparsed.  A small transaction stays in memory, a large one moves to a temporary
file; what was rolled back to a savepoint is skipped when it is read.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from struct import Struct
from tempfile import SpooledTemporaryFile, gettempdir
from typing import IO, Final

from walagent.errors import StreamLostError

MEMORY: Final = 1 << 20  # bytes of one transaction that are kept in memory

_HEAD = Struct(">II")  # ID of the (sub)transaction, length of the message


@dataclass(slots=True)
class _Spool:
    file: IO[bytes]
    aborted: set[int] = field(default_factory=set[int])


class Spools:
    """One spool for each transaction that is open on the server and sent in blocks.

    Args:
        memory: bytes beyond which a transaction moves to a file.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._open: dict[int, _Spool] = {}

    def __len__(self) -> int:
        """Return the number of stored transactions."""
        return len(self._open)

    def put(self, xid: int, subxid: int, message: bytes) -> None:
        """Add a message of subtransaction *subxid* of *xid*.

        Raises:
            StreamLostError: the disk is full; the server resends the transaction.
        """
        with _in_files():
            if (spool := self._open.get(xid)) is None:
                spool = self._open[xid] = _Spool(SpooledTemporaryFile(self._memory))  # noqa: SIM115
            spool.file.write(_HEAD.pack(subxid, len(message)) + message)

    def abort(self, xid: int, subxid: int) -> None:
        """Discard the whole transaction, or the part of *subxid*."""
        if xid == subxid:
            self.drop(xid)
        elif (spool := self._open.get(xid)) is not None:
            spool.aborted.add(subxid)

    def drop(self, xid: int) -> None:
        """Discard a transaction."""
        if (spool := self._open.pop(xid, None)) is not None:
            _close(spool.file)

    def take(self, xid: int) -> Iterator[bytes]:
        """Yield a transaction's messages in order and discard it.

        Raises:
            StreamLostError: the disk is full; the server resends the transaction.
        """
        if (spool := self._open.pop(xid, None)) is None:
            return
        file = spool.file
        try:
            with _in_files():
                file.seek(0)  # flushes the buffer
            while head := file.read(_HEAD.size):
                subxid, size = _HEAD.unpack(head)
                message = file.read(size)
                if subxid not in spool.aborted:
                    yield message
        finally:
            _close(file)

    def close(self) -> None:
        """Discard all transactions and their files."""
        for xid in list(self._open):
            self.drop(xid)


@contextmanager
def _in_files() -> Generator[None]:
    """Translate an error of the file system, with the folder's name."""
    try:
        yield
    except OSError as error:
        raise StreamLostError(
            f"could not store an open transaction in {gettempdir()}: {error.strerror}",
            hint="Free space there, change TMPDIR, or set replication.protocol to 1.",
        ) from error


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # it would flush the buffer
        file.close()
