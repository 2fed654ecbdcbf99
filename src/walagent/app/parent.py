"""End with the parent process, also if that was killed and could signal nobody."""

import os
import signal
import sys
from threading import Thread


def end_with_parent() -> None:
    """Send SIGTERM to this process as soon as its stdin, a pipe of the parent, ends."""
    Thread(target=_wait_for_end, name="parent", daemon=True).start()


def _wait_for_end() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
