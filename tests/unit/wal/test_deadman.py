"""A connection is cut when nobody says any more that the loop turns."""

import socket
import time

from walagent.wal.deadman import Deadman

PATIENCE = 0.2  # seconds


def test_a_loop_that_turns_keeps_its_connection() -> None:
    """However long that takes; and stopping cuts nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        deadman = Deadman(ours.fileno(), PATIENCE)
        deadline = time.monotonic() + 3 * PATIENCE
        while time.monotonic() < deadline:
            deadman.alive()
        deadman.stop()
        ours.send(b"x")
        assert theirs.recv(10) == b"x"


def test_a_loop_that_hangs_loses_its_connection() -> None:
    """The other side is told, without anything that the loop would have to do."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Deadman(ours.fileno(), PATIENCE)
        theirs.settimeout(20 * PATIENCE)
        assert theirs.recv(10) == b""
