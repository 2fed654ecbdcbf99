"""A process whose clock is wrong, and goes wrong while it runs.

libfaketime stands before the C library of that process alone and tells another time of day; the
monotonic clock, which no administrator and no NTP steps, stays as it is.
"""

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.faults.rig.processes import Daemon
from tests.faults.rig.waiting import until_true

_LIBRARIES = ("*/faketime/libfaketimeMT.so.1", "faketime/libfaketimeMT.so.1")


def library() -> Path:
    """Find libfaketime, or skip the test."""
    roots = (Path("/usr/lib"), Path("/usr/local/lib"))
    found = [path for root in roots for name in _LIBRARIES for path in root.glob(name)]
    if not found:
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    return found[0]


class WrongClock:
    """A clock that a process goes by which is started with its `environment`."""

    def __init__(self, folder: Path, ahead: timedelta = timedelta(0)) -> None:
        """Make a clock that is *ahead* of the real one."""
        self._library = library()
        self._path = folder / f"clock-{os.urandom(3).hex()}"
        self.ahead = ahead

    def set(self, ahead: timedelta) -> None:
        """Step it, in one instant; only one that `steps`."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{ahead.total_seconds():+.0f}")
        new.rename(self._path)
        self.ahead = ahead

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to go by it."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME": f"{self.ahead.total_seconds():+.0f}",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # its name since 0.9.11
            "NO_FAKE_STAT": "1",
        }

    @property
    def steps(self) -> Mapping[str, str]:
        """What a process needs besides, to follow every step at once.

        It reads a file then whenever it looks at the time, which costs it a little.
        """
        self.set(self.ahead)
        return {
            **{name: text for name, text in self.environment.items() if name != "FAKETIME"},
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
        }

    async def is_told_by(self, daemon: Daemon, event: str) -> None:
        """Wait until the newest *event* in the daemon's log bears the time of this clock."""

        async def told() -> bool:
            daemon.is_alive()
            times = [
                datetime.fromisoformat(e["time"]) for e in daemon.events if e["event"] == event
            ]
            if not times:
                return False
            now = datetime.now(tz=times[-1].tzinfo) + self.ahead
            return abs(times[-1] - now) < timedelta(minutes=5)

        await until_true(told, f"the log is {self.ahead} ahead")
