"""A process of its own, started as systemd starts one."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

INTERVAL = 1.0  # seconds that the watchdog allows; a sign of life is due every half of it

# The parts that turn are one loop that counts; SIGUSR1 makes the whole process hang.
DAEMON = """
import asyncio, os, signal, subprocess, time
from walagent.app.systemd import Systemd, Watchdog

class State:
    streaming, progress_age, lag_bytes, retained_bytes, reasons, warnings = True, 0.0, 0, 0, (), ()

async def main():
    systemd = Systemd.from_environment()
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGUSR1, time.sleep, 3600)
    inherited = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    systemd.notify("READY=1", f"STATUS={'NOTIFY_SOCKET' in inherited or 'WATCHDOG' in inherited}")
    feeding = asyncio.create_task(Watchdog(systemd, lambda: True, State()).run())
    await stopping.wait()
    feeding.cancel()
    systemd.notify("STOPPING=1")

asyncio.run(main())
"""


@pytest.fixture
def heard() -> Iterator[socket.socket]:
    """Listen as systemd does."""
    with (
        tempfile.TemporaryDirectory(prefix="wa-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
    ):
        listening.bind(f"{folder}/notify")
        listening.settimeout(30)
        yield listening


@contextmanager
def _started(heard: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    """Start the daemon; kill it when the test is through."""
    source = Path(__file__).parents[2] / "src"
    environ = os.environ | {
        "PYTHONPATH": str(source),
        "NOTIFY_SOCKET": heard.getsockname(),
        "WATCHDOG_USEC": str(int(INTERVAL * 1e6)),
    }
    with subprocess.Popen([sys.executable, "-c", DAEMON], env=environ) as daemon:
        try:
            yield daemon
        finally:
            daemon.kill()


def test_a_daemon_reports_its_whole_life(heard: socket.socket) -> None:
    """Its manager hears READY, signs of life and STOPPING; a child of it hears of no manager."""
    with _started(heard) as daemon:
        assert heard.recv(4096) == b"READY=1\nSTATUS=False"
        assert heard.recv(4096).endswith(b"\nWATCHDOG=1")
        assert heard.recv(4096).endswith(b"\nWATCHDOG=1")
        daemon.send_signal(signal.SIGTERM)
        message = b""
        while message != b"STOPPING=1":
            message = heard.recv(4096)
        assert daemon.wait(timeout=30) == 0


@pytest.mark.slow
def test_a_hung_daemon_falls_silent(heard: socket.socket) -> None:
    """A loop that does not turn sends no sign of life, so that systemd can kill and restart it."""
    with _started(heard) as daemon:
        while b"WATCHDOG=1" not in heard.recv(4096):
            pass
        daemon.send_signal(signal.SIGUSR1)
        heard.settimeout(1.5 * INTERVAL)
        assert len(list(_until_silence(heard))) <= 2  # what was on its way still arrives


def _until_silence(heard: socket.socket) -> Iterator[bytes]:
    """Give messages until none comes within the time-out; a lively daemon gives ten and more."""
    for _ in range(10):
        try:
            yield heard.recv(4096)
        except TimeoutError:
            return
