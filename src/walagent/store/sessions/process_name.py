"""The name of a process as holder of leases and of the checkpoint."""

import os
import socket


def process_name() -> str:
    """Return a name for this process: host, PID, and random digits, because PIDs repeat."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
