"""Where log lines go: a file descriptor that may be full, broken, or read by nobody.

Whatever becomes of a line, the daemon goes on: nothing here raises, and what is not read is waited
for once and briefly.  Lines that could not be written are counted.
"""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

_PATIENCE: Final = 100  # milliseconds for whoever reads to catch up; then none until they do
_AT_ONCE: Final = select.PIPE_BUF  # bytes that a pipe with room takes without making us wait


class Sink:
    """Takes whole lines for a stream.

    Args:
        stream: one without a descriptor of the system is simply written to; None takes nothing.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._fd = _descriptor(stream)
        self._poll = select.poll()
        if self._fd is not None:
            self._poll.register(self._fd, select.POLLOUT)
        self._stuck = False  # whether the last line met nobody who reads
        self._torn = False  # whether it was written in part
        self.lost = 0  # lines

    def write(self, line: str) -> bool:
        """Write a line with its end; False when it is lost, which `lost` counts."""
        try:
            if self._fd is None:
                self._write_to_stream(line)
            else:
                self._write(("\n" if self._torn else "") + line)
        except (OSError, ValueError):  # full, broken or not read; closed
            self.lost += 1
            return False
        return True

    def _write_to_stream(self, line: str) -> None:
        if self._stream is None:
            raise OSError("there is no stream")
        self._stream.write(line)
        self._stream.flush()

    def _write(self, text: str) -> None:
        assert self._fd is not None  # noqa: S101 - the caller has looked
        left = memoryview(text.encode(errors="backslashreplace"))
        while left:
            if not self._poll.poll(0 if self._stuck else _PATIENCE):
                self._stuck = True
                raise BlockingIOError("nobody reads")
            self._stuck = False
            written = os.write(self._fd, left[:_AT_ONCE])
            left = left[written:]
            self._torn = bool(left)


def _descriptor(stream: TextIO | None) -> int | None:
    """Find what the system knows *stream* by, and write out what it holds."""
    if stream is None:
        return None
    fileno: Callable[[], int] | None = getattr(stream, "fileno", None)
    with suppress(OSError, ValueError):  # also UnsupportedOperation, which is both
        stream.flush()
        return fileno() if fileno else None
    return None
