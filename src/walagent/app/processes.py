"""Several processes as one service: started, signalled and stopped together.

Python executes on one core per process.  The parent executes nothing itself: it forwards signals to
the children, and their notifications to systemd.  If one child ends, the others are stopped and its
exit code is returned, so that whatever started the service restarts all of it.
"""

import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread

from walagent.app.systemd import Systemd
from walagent.telemetry.log import log

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LONGEST = 4096  # bytes of one notification


async def run_processes(command: Callable[[int], Sequence[str]], count: int) -> int:
    """Run *count* processes until all have ended; return the highest exit code.

    Args:
        command: returns the command line of the process with this index.
    """
    systemd, loop = Systemd.from_environment(), asyncio.get_running_loop()
    family = _Family(systemd, count)
    for number in _FORWARDED:
        loop.add_signal_handler(number, family.forward, number)
    try:
        with tempfile.TemporaryDirectory(prefix="walagent-") as folder:
            return await family.run(command, Path(folder))
    finally:
        for number in _FORWARDED:
            loop.remove_signal_handler(number)


def end_with_parent() -> None:
    """Send SIGTERM to this process as soon as its stdin, a pipe of the parent, ends.

    So a child does not outlive a parent that was killed and could signal nobody.
    """
    Thread(target=_wait_for_parent, name="parent", daemon=True).start()


def _wait_for_parent() -> None:
    while os.read(sys.stdin.fileno(), _LONGEST):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


class _Family:
    def __init__(self, systemd: Systemd, count: int) -> None:
        self._systemd = systemd
        self._count = count
        self._children: list[Process] = []
        self._stopping = False
        self._ready: set[int] = set()
        self._fed: set[int] = set()  # since the last time that the watchdog was fed

    async def run(self, command: Callable[[int], Sequence[str]], folder: Path) -> int:
        with ExitStack() as sockets:
            listening: list[asyncio.Task[None]] = []
            try:
                for index in range(self._count):
                    receiver = sockets.enter_context(_bound(folder / str(index)))
                    listening.append(asyncio.create_task(self._listen(index, receiver)))
                    child = await self._start(command(index), folder / str(index))
                    self._children.append(child)
                    if self._stopping:  # signalled while this one was being started
                        child.terminate()
                        break
                return await self._until_ended()
            finally:
                for child in self._children:  # only after an error: they have ended otherwise
                    with suppress(ProcessLookupError):
                        child.kill()
                for task in listening:
                    task.cancel()
                await asyncio.gather(*listening, return_exceptions=True)

    async def _start(self, command: Sequence[str], address: Path) -> Process:
        environment = dict(os.environ)
        if self._systemd.address:
            environment["NOTIFY_SOCKET"] = str(address)
        if self._systemd.watchdog:
            environment["WATCHDOG_USEC"] = str(int(self._systemd.watchdog * 1e6))
        # In a process group of its own: Ctrl-C signals the whole group of the terminal, and a child
        # that is signalled twice does not wait for its runs.  Its stdin ends with this process.
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, env=environment, process_group=0
        )

    async def _until_ended(self) -> int:
        waiting = [asyncio.create_task(self._wait(child)) for child in self._children]
        return max(await asyncio.gather(*waiting))

    async def _wait(self, child: Process) -> int:
        code = await child.wait()
        if not self._stopping:
            log.error("process.ended", pid=child.pid, code=code)
            self.forward(signal.SIGTERM)
        return code if code >= 0 else 128 - code  # as a shell reports a signal

    def forward(self, number: int) -> None:
        """Send a signal to all children."""
        if number != signal.SIGHUP:
            if not self._stopping:
                self._systemd.notify("STOPPING=1")
            self._stopping = True
        for child in self._children:
            with suppress(ProcessLookupError):
                child.send_signal(number)

    # Notifications.

    async def _listen(self, index: int, receiver: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            message = await loop.sock_recv(receiver, _LONGEST)
            self._heard(index, message.decode(errors="replace").splitlines())

    def _heard(self, index: int, assignments: Sequence[str]) -> None:
        """Notify systemd of what holds for all children."""
        for each in assignments:
            if each == "READY=1":
                self._ready.add(index)
                if len(self._ready) == self._count:
                    self._systemd.notify("READY=1")
            elif each == "RELOADING=1":
                if len(self._ready) == self._count:
                    now = time.monotonic_ns() // 1000
                    self._systemd.notify("RELOADING=1", f"MONOTONIC_USEC={now}")
                self._ready.discard(index)
            elif each == "WATCHDOG=1":
                self._fed.add(index)
                if len(self._fed) == self._count:
                    self._fed.clear()
                    self._systemd.notify("WATCHDOG=1")
            elif each.startswith("STATUS="):
                self._systemd.status(f"process {index + 1}: {each.removeprefix('STATUS=')}")


def _bound(path: Path) -> socket.socket:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    receiver.setblocking(False)  # noqa: FBT003 - the standard library's
    receiver.bind(str(path))
    return receiver
