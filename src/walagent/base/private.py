"""Close the process to other processes of the same user."""

import ctypes
import resource
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def close_process() -> None:
    """Close memory and environment, which have keys and passwords, and write no core file.

    Call this before a program is started: it runs as the same user, and /proc shows it the process
    that started it.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
