"""Where tests keep their files: in memory, if there is room.

A server makes a thousand small files for each database.  On a disk that takes ten times the CPU.
"""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - Linux's; what is made there has a random name
ROOM = 3 << 30  # bytes; two servers with their WAL take less than half of it


def use_memory() -> None:
    """Let this process and all that it starts make temporary files in memory.

    TMPDIR, if set, decides instead.
    """
    if "TMPDIR" not in os.environ and _is_suitable(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it may have been decided already


def _is_suitable(folder: Path) -> bool:
    """Whether there is room, and tests can execute what they write there."""
    return (
        folder.is_dir()
        and os.access(folder, os.W_OK)
        and not os.statvfs(folder).f_flag & os.ST_NOEXEC
        and shutil.disk_usage(folder).free >= ROOM
    )
