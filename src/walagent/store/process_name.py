"""The name under which a process holds leases and the checkpoint."""

import os
import socket


def process_name() -> str:
    """Name this process: host, PID, and random digits, since PIDs are used again."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
