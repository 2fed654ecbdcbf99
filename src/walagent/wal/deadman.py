"""A dead man's switch: cuts the connection when the event loop itself hangs.

A tool that blocks the loop keeps the stream from being read, and nothing on the loop can say so.
The server has a time-out for that, but not once it wants to end the stream itself: then it waits
for the socket without an end, and its checkpoints wait with it.  So a thread looks whether the loop
turns.
"""

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Final

_LOOKS: Final = 10  # within the patience


class Deadman:
    """Holds a socket open for as long as somebody says `alive` often enough.

    Args:
        fd: of the socket; a duplicate of it is kept, so its owner may close it any time.
        patience: seconds between two calls of `alive` after which the connection is cut.
    """

    def __init__(self, fd: int, patience: float) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self._patience = patience
        self._seen = time.monotonic()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="deadman", daemon=True).start()

    def alive(self) -> None:
        """Say that the loop turns."""
        self._seen = time.monotonic()

    def stop(self) -> None:
        """Let go of the socket; the server is free of it once its owner has closed it, too."""
        self._stopped.set()

    def _watch(self) -> None:
        with self._socket:
            while not self._stopped.wait(self._patience / _LOOKS):
                if time.monotonic() - self._seen > self._patience:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)
                    return
