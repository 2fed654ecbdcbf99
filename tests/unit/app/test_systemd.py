"""What systemd hears, on a real socket."""

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from walagent.app.systemd import Systemd, Watchdog, status_line


@dataclass
class State:
    """A daemon's health, set by the test."""

    streaming: bool = True
    progress_age: float = 0.0
    lag_bytes: int = 0
    retained_bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass
class Listener:
    """systemd's end of the notification socket."""

    address: str
    socket: socket.socket

    def heard(self) -> list[str]:
        """Give the next message, line by line."""
        return self.socket.recv(4096).decode().split("\n")


@pytest.fixture(params=["path", "abstract"])
def listener(request: pytest.FixtureRequest) -> Iterator[Listener]:
    """Listen as systemd does, on a path or on an abstract name."""
    # Not tmp_path: a socket's path may have 107 bytes and no more.
    with (
        tempfile.TemporaryDirectory(prefix="wa-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
    ):
        address = f"{folder}/notify" if request.param == "path" else f"@walagent-{uuid4()}"
        listening.settimeout(10)
        listening.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        yield Listener(address, listening)


def test_a_message_arrives_in_one_piece(listener: Listener) -> None:
    """Several assignments are one datagram, a line each."""
    assert Systemd(listener.address).notify("READY=1", "STATUS=streaming")
    assert listener.heard() == ["READY=1", "STATUS=streaming"]


def test_without_systemd_nothing_happens() -> None:
    """A daemon started by hand notifies nobody, and says so."""
    assert not Systemd.from_environment({}).notify("READY=1")


def test_a_socket_that_nobody_listens_on_is_no_reason_to_stop(tmp_path: Path) -> None:
    """Systemd acts on silence itself, so an unheard message only returns False."""
    assert not Systemd(str(tmp_path / "gone")).notify("READY=1")


def test_the_environment_is_taken_and_cleared() -> None:
    """Children inherit neither the socket nor the watchdog."""
    environ = {
        "NOTIFY_SOCKET": "/run/systemd/notify",
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
        "PATH": "/bin",
    }
    assert Systemd.from_environment(environ) == Systemd("/run/systemd/notify", 30.0)
    assert environ == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("interval", "pid"), [("30000000", "1"), ("", ""), ("0", ""), ("soon", "")]
)
def test_a_watchdog_that_is_not_for_us_is_none(interval: str, pid: str) -> None:
    """Another process's watchdog, a zero and nonsense all mean that nobody watches us."""
    environ = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": interval, "WATCHDOG_PID": pid}
    assert Systemd.from_environment(environ).watchdog is None


def test_a_status_is_one_line_without_secrets(listener: Listener) -> None:
    """A second line would be a second assignment, and `systemctl status` is for everybody."""
    Systemd(listener.address).status("lost\npostgresql://me:hunter2@db\nREADY=1")
    assert listener.heard() == ["STATUS=lost postgresql://me:***@db READY=1"]


def test_a_reload_says_when_it_began_and_when_it_is_over(listener: Listener) -> None:
    """Systemd needs the time of the start to tell this reload from the one before."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    with Systemd(listener.address).reloading():
        began, since = listener.heard()
        assert began == "RELOADING=1"
        assert before <= int(since.removeprefix("MONOTONIC_USEC="))
    assert listener.heard() == ["READY=1"]


def test_a_failed_reload_leaves_the_daemon_ready(listener: Listener) -> None:
    """With a broken file the old configuration stays in force, and the unit is not stuck."""
    with pytest.raises(ValueError, match="broken"), Systemd(listener.address).reloading():
        raise ValueError("broken")
    assert listener.heard()[0] == "RELOADING=1"
    assert listener.heard() == ["READY=1"]


def test_the_watchdog_is_fed_only_while_there_is_progress(listener: Listener) -> None:
    """A daemon whose reader hangs tells its status and no sign of life."""
    alive = True
    state = State(lag_bytes=12)
    watchdog = Watchdog(Systemd(listener.address, 1.0), lambda: alive, state)
    assert watchdog.feed()
    assert listener.heard() == ["STATUS=streaming, 12 B behind", "WATCHDOG=1"]

    alive = False
    assert not watchdog.feed()
    assert listener.heard() == ["STATUS=streaming, 12 B behind"]


async def test_the_watchdog_is_fed_in_time(listener: Listener) -> None:
    """Two signs of life come within one interval."""
    listener.socket.settimeout(0)
    loop = asyncio.get_running_loop()
    watchdog = Watchdog(Systemd(listener.address, 2.0), lambda: True, State())
    task = asyncio.create_task(watchdog.run())
    async with asyncio.timeout(10):
        await loop.sock_recv(listener.socket, 4096)
        first = loop.time()
        assert b"WATCHDOG=1" in await loop.sock_recv(listener.socket, 4096)
    assert loop.time() - first < 2.0
    task.cancel()


async def test_without_systemd_there_is_nothing_to_feed() -> None:
    """The part ends at once instead of turning for nobody."""
    await asyncio.wait_for(Watchdog(Systemd(), lambda: True, State()).run(), timeout=5)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (State(lag_bytes=0), "streaming, 0 B behind"),
        (State(warnings=["the slot keeps much"]), "streaming, 0 B behind; the slot keeps much"),
        (State(lag_bytes=3 * 1024**3), "streaming, 3 GB behind"),
        (State(streaming=False), "waiting for the replication stream"),
        (State(reasons=["a gap was found", "no credential"]), "a gap was found; no credential"),
    ],
)
def test_the_status_line_tells_what_matters_first(state: State, line: str) -> None:
    """What keeps the daemon from its work comes before how far it is."""
    assert status_line(state) == line
