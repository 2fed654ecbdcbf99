"""Shut the replication socket down when the event loop hangs.

A tool that blocks the event loop keeps the stream from being read, and nothing on the loop can
detect it.  The server's timeout does not apply while the server itself ends the stream: it then
waits for the socket indefinitely, and its server checkpoints wait too.  So a thread checks that the
loop runs.
"""

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Final

_LOOKS: Final = 10  # per patience


class Deadman:
    """Keeps a socket open while `alive` is called often enough.

    Args:
        fd: of the socket; it is duplicated, so the owner can close it at any time.
        patience: seconds without a call of `alive` after which the socket is shut down.
    """

    def __init__(self, fd: int, patience: float) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self._patience = patience
        self._seen = time.monotonic()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="deadman", daemon=True).start()

    def alive(self) -> None:
        """Report that the event loop runs."""
        self._seen = time.monotonic()

    def stop(self) -> None:
        """Close the duplicate; the connection ends when the owner has closed the socket too."""
        self._stopped.set()

    def _watch(self) -> None:
        with self._socket:
            while not self._stopped.wait(self._patience / _LOOKS):
                if time.monotonic() - self._seen > self._patience:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)
                    return
