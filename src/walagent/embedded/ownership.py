"""Manage two files beside a data directory: the owner's lock and the server's log."""

import fcntl
from pathlib import Path
from typing import IO

_LOG_LIMIT = 10_000_000  # bytes; checked when the server starts; one older file is kept


def try_lock(data_dir: Path) -> IO[bytes] | None:
    """Acquire the owner's lock; None if another process holds it.

    The kernel releases it when the owner ends, even after SIGKILL.
    """
    file = data_dir.with_name(f"{data_dir.name}.lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def log_path(data_dir: Path) -> Path:
    """Return the path of the log of the server on *data_dir*."""
    return data_dir.with_name(f"{data_dir.name}.log")


def open_log(data_dir: Path) -> IO[bytes]:
    """Open the log for appending; a large one is renamed first."""
    path = log_path(data_dir)
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")
