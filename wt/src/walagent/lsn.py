"""A position in the write-ahead log."""

import re
from typing import Self

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


class Lsn(int):
    """A byte position in the WAL; compares and subtracts as the number it is.

    Source: PostgreSQL docs, 8.20 pg_lsn Type.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read PostgreSQL's form ``16/B374D848``.

        Raises:
            ValueError: the text is not a position.
        """
        if not (match := _TEXT.fullmatch(text)):
            raise ValueError(f"not an LSN: {text!r}")
        high, low = match.groups()
        return cls(int(high, 16) << 32 | int(low, 16))

    def __str__(self) -> str:
        """Write PostgreSQL's form."""
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        """Write it so that a log line or a failed assertion can be read."""
        return f"Lsn('{self}')"
