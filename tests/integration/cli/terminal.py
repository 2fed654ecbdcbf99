"""Somebody at a real terminal: a pty on which `walagent` runs, what it shows, and keys."""

import fcntl
import os
import select
import struct
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.commands import Process, start_command
from tests.integration.cli.user import PATIENCE, User

CTRL_C, CTRL_D, CTRL_R, UP, ENTER = "\x03", "\x04", "\x12", "\x1b[A", "\r"


@dataclass
class Terminal:
    """A terminal with a program on it.

    Args:
        shown: everything that was written to it so far, as it was written.
    """

    process: Process
    master: int
    shown: str = ""
    _seen: int = 0

    def types(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def interrupts(self) -> None:
        """Press Ctrl-C once the program waits for keys: Python misses it between two of them."""
        deadline = time.monotonic() + PATIENCE
        status = Path(f"/proc/{self.process.pid}/stat")
        while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline, f"never waits: {self.shown!r}"
            time.sleep(0.01)
        self.types(CTRL_C)

    def enters(self, line: str) -> None:
        """Type a line."""
        self.types(line + ENTER)

    def shows(self, words: str) -> None:
        """Wait until *words* are shown, after what was waited for before."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(words, self._seen)) < 0:
            assert time.monotonic() < deadline, f"never showed {words!r}: {self.shown!r}"
            assert self._read(), f"ended, and never showed {words!r}: {self.shown!r}"
        self._seen = at + len(words)

    def ends(self) -> int:
        """Wait for the end; give the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.master], [], [], PATIENCE)
        assert ready, f"nothing more was shown: {self.shown!r}"
        try:
            read = os.read(self.master, 65_536)
        except OSError:  # Linux's way to say that nobody has the other side any more
            return False
        self.shown += read.decode(errors="replace")
        return bool(read)


@contextmanager
def at_terminal(user: User, *arguments: str, columns: int = 80) -> Generator[Terminal]:
    """Start ``walagent`` on a terminal of its own; it is killed if it does not end."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with os.fdopen(slave, "r+b", buffering=0) as screen:
        process = start_command(
            arguments, streams=(screen, screen, screen), folder=user.folder,
            environment=user.environment | {"TERM": "xterm"}, terminal=True,
        )  # fmt: skip
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(master)
