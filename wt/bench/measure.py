"""Wall time, CPU time and memory of processes, read from /proc; needs nothing but Python.

The peers' scripts import it too, inside their own virtual environments.
"""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")  # /proc counts CPU time in these, 100 a second
_PPID, _UTIME, _STIME, _CUTIME, _CSTIME = 1, 11, 12, 13, 14  # places after the "(command)"


@dataclass(frozen=True, slots=True)
class Spent:
    """What a stretch of work took, in seconds."""

    wall: float
    cpu: float  # of the measured process
    server_cpu: float  # of PostgreSQL, all its processes


class Meter:
    """Measures from its making, or the last `restart`, to `read`."""

    def __init__(self, postmaster: int, pid: int | None = None) -> None:
        """Start measuring.

        Args:
            postmaster: pid of the server's first process; 0 where no server takes part.
            pid: the process to measure; default this one.
        """
        self._postmaster = postmaster
        self._pid = pid or os.getpid()
        self.restart()

    def restart(self) -> None:
        """Forget what was spent so far."""
        self._start = self._now()

    def read(self) -> Spent:
        """What was spent since the start."""
        now = self._now()
        return Spent(*(end - begin for begin, end in zip(self._start, now, strict=True)))

    def _now(self) -> tuple[float, float, float]:
        server = tree_cpu(self._postmaster) if self._postmaster else 0.0
        return time.monotonic(), cpu(self._pid), server


def cpu(pid: int) -> float:
    """CPU seconds of one process, all its threads."""
    stat = _stat(pid)
    return (int(stat[_UTIME]) + int(stat[_STIME])) / _TICKS


def tree_cpu(postmaster: int) -> float:
    """CPU seconds of PostgreSQL: of every process it has, and of those that have ended."""
    total = sum(int(_stat(postmaster)[place]) for place in (_UTIME, _STIME, _CUTIME, _CSTIME))
    for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            stat = _stat(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile; its parent has its time
        if int(stat[_PPID]) == postmaster:
            total += int(stat[_UTIME]) + int(stat[_STIME])
    return total / _TICKS


def rss_kb(pid: int | None = None) -> int:
    """Resident memory of a process now, in kB."""
    return _status_kb(pid, "VmRSS:")


def peak_rss_kb(pid: int | None = None) -> int:
    """The most resident memory a process ever had, in kB."""
    return _status_kb(pid, "VmHWM:")


def percentile(values: Sequence[float], share: float) -> float:
    """The value that *share* of all values do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _stat(pid: int) -> list[str]:
    """The fields after the command's name, which may itself hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _status_kb(pid: int | None, key: str) -> int:
    for line in Path(f"/proc/{pid or 'self'}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    raise LookupError(f"process {pid} has no {key} any more")
