"""Where a measured process spends its CPU time, and when it passes its failpoints.

Started by `bench.ours.parts` where `BENCH_PROFILE` names a file.  A timer of CPU time interrupts
the process each millisecond; the innermost frame says which module runs, the innermost frame of
walagent on whose behalf.  Time in C counts for the frame that called it.
"""

import atexit
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from walagent.base import faults

_EVERY = 0.001  # seconds of CPU time
_OURS = f"{os.sep}walagent{os.sep}"
_LIBRARIES = f"site-packages{os.sep}"


class Sampler:
    """Samples of one process, written to a file when it exits."""

    def __init__(self, path: Path) -> None:
        """Take where to write."""
        self._path = path
        self._inner: Counter[str] = Counter()
        self._behalf: Counter[str] = Counter()
        self._points: list[tuple[str, float]] = []

    def start(self) -> None:
        """Start the timer, and note the time at each failpoint."""
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)
        faults.hit = lambda point: self._points.append((point, time.time()))
        atexit.register(self._write)

    def _take(self, _: int, frame: FrameType | None) -> None:
        if frame is None:
            return
        self._inner[_place(frame)] += 1
        while frame and _OURS not in frame.f_code.co_filename:
            frame = frame.f_back
        self._behalf[_place(frame) if frame else "the event loop"] += 1

    def _write(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._path.write_text(
            json.dumps({"inner": self._inner, "behalf": self._behalf, "points": self._points})
        )


def _place(frame: FrameType) -> str:
    """The module of ours that a frame belongs to, or the library."""
    name = frame.f_code.co_filename
    if _OURS in name:
        return name.rsplit(_OURS, 1)[1].removesuffix(".py")
    if _LIBRARIES in name:
        return Path(name.split(_LIBRARIES, 1)[1]).parts[0].removesuffix(".py")
    if name.startswith((sys.prefix, sys.base_prefix)):
        return f"Python's {Path(name).parent.name if 'asyncio' in name else Path(name).stem}"
    return Path(name).stem
