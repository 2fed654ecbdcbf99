"""Notify systemd: ready, status, watchdog, reloading and stopping.

Every call does nothing if systemd did not start this process.

Source: systemd's manual, sd_notify(3), sd_watchdog_enabled(3), systemd.service(5).
"""

import os
import socket
import time
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from walagent.base.concurrency import Periodic
from walagent.config.base import in_bytes
from walagent.http.health import Health
from walagent.telemetry.mask import mask

_STATUS_EVERY = 10.0  # seconds, where no watchdog asks for a shorter interval
_SEND_TIMEOUT = 1.0  # seconds; the notification queue might be full


@dataclass(frozen=True, slots=True)
class Systemd:
    """The notification socket, and the watchdog's interval.

    Args:
        address: a path, or a name in the abstract namespace after "@"; "" without systemd.
        watchdog: seconds without a notification after which systemd kills the process, or None.
    """

    address: str = ""
    watchdog: float | None = None

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] = os.environ) -> Self:
        """Remove the variables from the environment, so that child processes do not notify systemd.

        An embedded PostgreSQL would otherwise report its own READY.
        """
        address = environ.pop("NOTIFY_SOCKET", "")
        interval = environ.pop("WATCHDOG_USEC", "")
        pid = environ.pop("WATCHDOG_PID", "")
        ours = interval.isdigit() and pid in {"", str(os.getpid())}
        return cls(address, int(interval) / 1e6 if ours and int(interval) else None)

    def notify(self, *assignments: str) -> bool:
        """Send *assignments* such as ``READY=1`` in one message.

        Returns:
            Whether it was sent.  If not, systemd acts on the missing notification.
        """
        if not self.address:
            return False
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(_SEND_TIMEOUT)
            try:
                sender.sendto("\n".join(assignments).encode(), address)
            except OSError:
                return False
        return True

    def status(self, text: str, *assignments: str) -> bool:
        """Show *text* in ``systemctl status``, on one line and with secrets masked."""
        return self.notify(f"STATUS={' '.join(mask(text).split())}", *assignments)

    @contextmanager
    def reloading(self) -> Generator[None]:
        """Notify RELOADING at the start of the block, and READY at its end."""
        self.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            yield
        finally:
            self.notify("READY=1")


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Feeds systemd's watchdog while the parts make progress.

    A timer alone would feed the watchdog of a daemon whose reader hangs.

    Args:
        progress: whether the loops of the parts have turned lately.  Reconnecting to a lost
            database counts as progress: a restart would not help.
        health: content of the status line.
    """

    systemd: Systemd
    progress: Callable[[], bool]
    health: Health

    def feed(self) -> bool:
        """Send the status line, with WATCHDOG=1 if there is progress."""
        alive = self.progress()
        self.systemd.status(status_line(self.health), *(("WATCHDOG=1",) if alive else ()))
        return alive

    async def run(self) -> None:
        """Feed at half the interval that systemd requires, until cancelled."""
        if not self.systemd.address:
            return
        every = min(self.systemd.watchdog or 2 * _STATUS_EVERY, 2 * _STATUS_EVERY) / 2
        async for _ in Periodic(every):
            self.feed()


def status_line(health: Health) -> str:
    """Format *health* as the status line of ``systemctl status``."""
    if health.reasons:
        return "; ".join([*health.reasons, *health.warnings])
    if not health.streaming:
        return "; ".join(["waiting for the replication stream", *health.warnings])
    return "; ".join([f"streaming, {in_bytes(health.lag_bytes)} behind", *health.warnings])
