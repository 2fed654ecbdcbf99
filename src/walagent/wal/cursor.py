"""Read a message field by field, with bounds checks."""

from datetime import UTC, datetime, timedelta
from struct import Struct

from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def time_of(micros: int, offset: int) -> datetime:
    """Convert microseconds since 2000-01-01.

    Raises:
        DecodeError: the timestamp is out of range.
    """
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError as error:
        raise DecodeError(
            f"timestamp out of range: {micros} microseconds", offset=offset
        ) from error


class Cursor:
    """A read position in *data*.

    Args:
        offset: where the message starts.
    """

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = data
        self.offset = offset

    def take(self, size: int) -> bytes:
        """Read *size* bytes.

        Raises:
            DecodeError: fewer bytes are left.
        """
        end = self.offset + size
        if end > len(self.data):
            raise DecodeError(
                f"unexpected end of message: expected {size} bytes", offset=self.offset
            )
        chunk = self.data[self.offset : end]
        self.offset = end
        return chunk

    def uint8(self) -> int:
        """Read an unsigned 1-byte integer."""
        return self.take(1)[0]

    def uint16(self) -> int:
        """Read an unsigned 2-byte integer in network byte order, as are all numbers."""
        return int.from_bytes(self.take(2), "big")

    def uint32(self) -> int:
        """Read an unsigned 4-byte integer."""
        return int.from_bytes(self.take(4), "big")

    def int32(self) -> int:
        """Read a signed 4-byte integer."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def lsn(self) -> Lsn:
        """Read an LSN."""
        return Lsn(int.from_bytes(self.take(8), "big"))

    def fields(self, layout: Struct) -> tuple[int, ...]:
        """Read several integers at once.

        Raises:
            DecodeError: there are fewer bytes left.
        """
        start, end = self.offset, self.offset + layout.size
        if end > len(self.data):
            raise DecodeError(
                f"unexpected end of message: expected {layout.size} bytes", offset=start
            )
        self.offset = end
        return layout.unpack_from(self.data, start)

    def text(self) -> str:
        """Read a null-terminated string.

        Bytes that are not UTF-8 (in a SQL_ASCII database) are kept as lone surrogates.

        Raises:
            DecodeError: the terminator is missing.
        """
        end = self.data.find(b"\0", self.offset)
        if end < 0:
            raise DecodeError("unterminated string", offset=self.offset)
        chunk = self.data[self.offset : end]
        self.offset = end + 1
        return chunk.decode("utf-8", "surrogateescape")

    def finish(self) -> None:
        """Check that the message ends here.

        Raises:
            DecodeError: more bytes follow.
        """
        if (rest := len(self.data) - self.offset) != 0:
            raise DecodeError(f"{rest} bytes after the end of the message", offset=self.offset)
