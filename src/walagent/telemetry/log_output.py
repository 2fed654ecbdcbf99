"""Write log lines to a file descriptor, which can be full, broken, or not read.

The daemon continues in every case: nothing here raises, and a write waits once and briefly for a
slow reader.  Lost lines are counted.
"""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

_PATIENCE: Final = 100  # milliseconds to wait for the reader; then none until it reads again
_AT_ONCE: Final = select.PIPE_BUF  # bytes that a pipe with space accepts without blocking


class LogSink:
    """Writes whole lines to a stream.

    Args:
        stream: a stream without a file descriptor is written to directly; None discards lines.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._fd = _descriptor(stream)
        self._poll = select.poll()
        if self._fd is not None:
            self._poll.register(self._fd, select.POLLOUT)
        self._stuck = False  # whether the last line was not read
        self._torn = False  # whether it was written in part
        self.lost = 0  # lines

    def write(self, line: str) -> bool:
        """Write a line with its newline; False if it is lost, which `lost` counts."""
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
            raise OSError("no stream")
        self._stream.write(line)
        self._stream.flush()

    def _write(self, text: str) -> None:
        assert self._fd is not None  # noqa: S101 - checked by the caller
        left = memoryview(text.encode(errors="backslashreplace"))
        while left:
            if not self._poll.poll(0 if self._stuck else _PATIENCE):
                self._stuck = True
                raise BlockingIOError("the log is not read")
            self._stuck = False
            written = os.write(self._fd, left[:_AT_ONCE])
            left = left[written:]
            self._torn = bool(left)


def _descriptor(stream: TextIO | None) -> int | None:
    """Return the stream's file descriptor, after flushing the stream."""
    if stream is None:
        return None
    fileno: Callable[[], int] | None = getattr(stream, "fileno", None)
    with suppress(OSError, ValueError):  # also UnsupportedOperation, which is both
        stream.flush()
        return fileno() if fileno else None
    return None
