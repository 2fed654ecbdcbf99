"""Daemons forked from a process that has imported everything already.

A daemon needs seconds of CPU to import itself and a provider's SDK.  A test that kills hundreds of
them has each forked from one that has got that far: the same command line, the same code, a
process of its own with its own id, sockets and end.

    python -m tests.faults.rig.forking

reads what to start from stdin and writes what became of it to stdout, a line of JSON each.
"""

import atexit
import ctypes
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

_IMPORTED = ("walagent.cli.daemon", "walagent.agent.models.openai.model")
_PR_SET_PDEATHSIG, _CLONE_NEWNET = 1, 0x40000000
_ANSWER = 60.0  # seconds that starting the first one may take; importing is part of that


class Forked:
    """A process that was forked; what `Process` wants of `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stderr: Path,
        folder: Path,
        environment: Mapping[str, str],
        network: str = "",
    ) -> None:
        """Start `walagent` with *arguments*.

        Args:
            network: the file of the network namespace that it is to be in; default: ours.
        """
        self.args = ["walagent", *arguments]
        self._parent = _Parent.common()
        self.pid = self._parent.start(
            {
                "arguments": list(arguments),
                "stderr": str(stderr),
                "folder": str(folder),
                "environment": dict(environment),
                "network": network,
            }
        )
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code once it has ended; a signal's number is below zero."""
        if self.returncode is None:
            self._parent.listen(0)
            self.returncode = self._parent.ended.get(self.pid)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Wait until it has ended."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"{self.args} does not end"
            self._parent.listen(0.05)
        return code


class _Parent:
    """The process that everything is forked from: one for all tests, gone with them."""

    _only: "_Parent | None" = None

    @classmethod
    def common(cls) -> "_Parent":
        """Start it when it is first wanted."""
        if cls._only is None:
            cls._only = cls()
        return cls._only

    def __init__(self) -> None:
        root = Path(__file__).parents[3]
        self._popen = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
        )
        atexit.register(self._popen.kill)
        self._rest = b""
        self._started: int | None = None
        self.ended: dict[int, int] = {}

    def start(self, what: Mapping[str, Any]) -> int:
        """Have a process forked; return its id."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(what).encode() + b"\n")
        self._popen.stdin.flush()
        deadline = time.monotonic() + _ANSWER
        while (pid := self._started) is None:
            assert self._popen.poll() is None, "the process that forks has ended"
            assert time.monotonic() < deadline, "nothing was forked"
            self.listen(0.1)
        self._started = None
        return pid

    def listen(self, seconds: float) -> None:
        """Take in what it has said, waiting up to *seconds* for something."""
        assert self._popen.stdout is not None
        while select.select([self._popen.stdout], [], [], seconds)[0]:
            data = os.read(self._popen.stdout.fileno(), 65536)
            if not data:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))
            seconds = 0

    def _hear(self, said: Mapping[str, int]) -> None:
        if "code" in said:
            self.ended[said["pid"]] = said["code"]
        else:
            self._started = said["pid"]
            self.ended.pop(said["pid"], None)  # of an earlier process with this id


# The other side.


def _serve() -> None:
    for module in _IMPORTED:
        import_module(module)
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.set_wakeup_fd(writes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    rest = b""
    while True:
        ready, _, _ = select.select([0, reads], [], [])
        if reads in ready:
            os.read(reads, 4096)
            _bury()
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _fork(json.loads(line))


def _bury() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(what: Mapping[str, int]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def _fork(what: Mapping[str, Any]) -> None:
    pid = os.fork()
    if pid:
        _say({"pid": pid})
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _be(what)


def _be(what: Mapping[str, Any]) -> None:
    """Become what was asked for; never returns, and does not outlive us."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(what["stderr"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for source, target in ((nothing, 0), (nothing, 1), (log, 2)):
        os.dup2(source, target)
    if what["network"]:
        _move(what["network"])
    os.chdir(what["folder"])
    os.environ.clear()
    os.environ.update(what["environment"])
    random.seed()
    sys.argv = ["walagent", *what["arguments"]]
    code = 1
    try:
        code = _main()
    except BaseException:  # noqa: BLE001 - an interpreter would print it, too
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def _move(network: str) -> None:
    with Path(network).open() as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {network}")


def _main() -> int:
    try:
        import_module("walagent.cli").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    _serve()
