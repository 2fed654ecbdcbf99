"""Log what the program of an MCP server writes to stderr: bounded, masked, line by line."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, Self, TextIO

from walagent.domain.untrusted import without_control
from walagent.telemetry.log import log
from walagent.telemetry.mask import mask

_MOST_LINE: Final = 500  # characters of a line that are logged
_MOST_LINES: Final = 20  # per minute
_MINUTE: Final = 60.0  # seconds
_AT_ONCE: Final = 65_536  # bytes


class ErrorOutput:
    """A pipe for a program's stderr, read inside its `with` block.

    Args:
        server: the name of the server, for the log.
        may_quote: whether the program has been sent arguments, which it can repeat.  Its lines are
            then logged at level debug.
    """

    def __init__(self, server: str, may_quote: Callable[[], bool]) -> None:
        self._server = server
        self._may_quote = may_quote
        self._rest = b""
        self._since = -_MINUTE
        self._lines = 0

    def __enter__(self) -> Self:
        """Create the pipe."""
        self._fd, writes = os.pipe()
        os.set_blocking(self._fd, False)
        self.stream: TextIO = open(writes, "w", encoding="utf-8")  # noqa: PTH123 - a descriptor
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        """Log what is left, and close the pipe."""
        self.stream.close()
        self._read()
        if self._rest:
            self._log(self._rest)
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    def _read(self) -> None:
        try:
            found = os.read(self._fd, _AT_ONCE)
        except BlockingIOError:
            return
        if not found:  # no process has the other end any more
            asyncio.get_running_loop().remove_reader(self._fd)
            return
        *lines, self._rest = (self._rest + found).split(b"\n")
        self._rest = self._rest[:_AT_ONCE]
        for line in lines:
            self._log(line)

    def _log(self, line: bytes) -> None:
        if (now := time.monotonic()) - self._since >= _MINUTE:
            self._since, self._lines = now, 0
        self._lines += 1
        text = without_control(line.decode(errors="replace")).strip()
        if not text or self._lines > _MOST_LINES:
            return
        text = mask(text)[:_MOST_LINE]
        if self._may_quote():
            log.debug("mcp.stderr_after_call", server=self._server, line=text)
        else:
            log.warning("mcp.stderr_written", server=self._server, line=text)
