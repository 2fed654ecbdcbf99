"""Reads forward through one message and always knows where it is."""

from datetime import UTC, datetime, timedelta

from walagent.errors import DecodeError
from walagent.lsn import Lsn

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Cursor:
    """A position in *data*; every read checks the bounds.

    Args:
        offset: where the message begins.
    """

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = data
        self.offset = offset

    def take(self, size: int) -> bytes:
        """Read *size* bytes.

        Raises:
            DecodeError: there are fewer left.
        """
        end = self.offset + size
        if end > len(self.data):
            raise DecodeError(f"message ends early: {size} bytes wanted", offset=self.offset)
        chunk = self.data[self.offset : end]
        self.offset = end
        return chunk

    def uint8(self) -> int:
        """Read one byte."""
        return self.take(1)[0]

    def uint16(self) -> int:
        """Read two bytes, the high one first, as all numbers are sent."""
        return int.from_bytes(self.take(2), "big")

    def uint32(self) -> int:
        """Read four bytes."""
        return int.from_bytes(self.take(4), "big")

    def int32(self) -> int:
        """Read four bytes with a sign."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def lsn(self) -> Lsn:
        """Read a position."""
        return Lsn(int.from_bytes(self.take(8), "big"))

    def time(self) -> datetime:
        """Read microseconds since 2000.

        Raises:
            DecodeError: a time that no calendar has.
        """
        start = self.offset
        micros = int.from_bytes(self.take(8), "big", signed=True)
        try:
            return _EPOCH + timedelta(microseconds=micros)
        except OverflowError as error:
            raise DecodeError(f"a time of {micros} microseconds", offset=start) from error

    def text(self) -> str:
        """Read up to the next zero byte.

        Bytes that are not UTF-8 (a SQL_ASCII database) survive as lone surrogates.

        Raises:
            DecodeError: no zero byte follows.
        """
        end = self.data.find(b"\0", self.offset)
        if end < 0:
            raise DecodeError("a text without its end", offset=self.offset)
        chunk = self.data[self.offset : end]
        self.offset = end + 1
        return chunk.decode("utf-8", "surrogateescape")

    def finish(self) -> None:
        """Say that the message ought to end here.

        Raises:
            DecodeError: more bytes follow.
        """
        if (rest := len(self.data) - self.offset) != 0:
            raise DecodeError(f"{rest} bytes too many", offset=self.offset)
