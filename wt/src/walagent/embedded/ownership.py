"""The two files beside a data directory: who owns its server, and what the server logs."""

import fcntl
from pathlib import Path
from typing import IO

_LOG_LIMIT = 10_000_000  # bytes; looked at when the server starts, one older file is kept


def try_lock(data_dir: Path) -> IO[bytes] | None:
    """Take the owner's lock, or None when another process has it.

    The kernel gives it back when the owner dies, however it dies.
    """
    file = data_dir.with_name(f"{data_dir.name}.lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def log_path(data_dir: Path) -> Path:
    """Where the server on *data_dir* writes its log."""
    return data_dir.with_name(f"{data_dir.name}.log")


def open_log(data_dir: Path) -> IO[bytes]:
    """Open the log to append; a large one is set aside first."""
    path = log_path(data_dir)
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")
