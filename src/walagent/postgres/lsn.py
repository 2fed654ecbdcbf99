"""A position in the write-ahead log."""

import re
from typing import Self

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


class Lsn(int):
    """A position in the WAL in bytes; compares and subtracts as an integer.

    Source: PostgreSQL docs, 8.20 pg_lsn Type.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse PostgreSQL's format ``16/B374D848``.

        Raises:
            ValueError: the text is not an LSN.
        """
        if not (match := _TEXT.fullmatch(text)):
            raise ValueError(f"invalid LSN: {text!r}")
        high, low = match.groups()
        return cls(int(high, 16) << 32 | int(low, 16))

    def __str__(self) -> str:
        """Return PostgreSQL's format."""
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        """Return a form for log lines and failed assertions."""
        return f"Lsn('{self}')"
