"""Processes forked from one that has imported everything already.

`walagent` needs up to a second of CPU to import itself and a provider's SDK.  Tests start hundreds
of them, each forked from one that has got that far: the same code, run as `python -m` does, in a
process of its own with its own arguments, environment, folder, id, files, sockets and end.

    python -m tests.helpers.forking FD

reads from the socket FD what to start.  Each request is one message: JSON, and four file
descriptors, for stdin, stdout, stderr, and for what becomes of the process: its id, then its exit
code, a line each.
"""

import atexit
import ctypes
import fcntl
import gc
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from runpy import run_module
from typing import Any, NoReturn

_IMPORTED = (
    "walagent.models.anthropic.messages_model",
    "walagent.models.embedded.nearest_label_model",
    "walagent.models.openai.chat_model",
)
_ROOT = Path(__file__).parents[2]
_PATH = (str(_ROOT / "src"), str(_ROOT))
_READ_AT_START = ("LANG", "LC_", "LD_", "PYTHON")  # by the interpreter, or before it
_PR_SET_PDEATHSIG, _CLONE_NEWNET = 1, 0x40000000
_LARGEST = 1 << 20  # bytes of a request
_DESCRIPTORS = 4
_STARTING = threading.Lock()  # two threads would start two parents, and drop one with its children


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether an interpreter with these variables would start as ours did, but for its path."""
    differ = any(_differs(name, environment) for name in {*environment, *os.environ})
    path = environment.get("PYTHONPATH", "").split(os.pathsep)
    return sys.platform == "linux" and not differ and set(path) <= set(_PATH)


def _differs(name: str, environment: Mapping[str, str]) -> bool:
    inherited = os.environ.get(name)
    return (
        name.startswith(_READ_AT_START)
        and name != "PYTHONPATH"
        and environment.get(name, inherited) != inherited
    )


def take_terminal() -> None:
    """Make stdin the terminal of this process: its Ctrl-C is ours."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Forked:
    """A process that was forked; what tests use of `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        streams: tuple[int, int, int],
        folder: Path,
        environment: Mapping[str, str],
        network: str = "",
        terminal: bool = False,
    ) -> None:
        """Start `python -m MODULE` with *arguments*.

        Args:
            streams: file descriptors for stdin, stdout and stderr.
            network: the file of the network namespace that it is to be in; default: ours.
            terminal: the streams are a terminal, which sends it signals.
        """
        self.args = [module, *arguments]
        self.returncode: int | None = None
        request = {
            "module": module,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "network": network,
            "terminal": terminal,
        }
        ours, theirs = os.pipe()
        self._reports = os.fdopen(ours, "rb", buffering=0)
        try:
            with _STARTING:
                parent = _parent()
            socket.send_fds(parent, [json.dumps(request).encode()], [*streams, theirs])
        finally:
            os.close(theirs)
        self.pid = self._report()

    def poll(self) -> int | None:
        """Its exit code once it has ended; a signal's number is below zero."""
        return self._ended(0)

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Wait until it has ended.

        Raises:
            TimeoutExpired: it has not, within *timeout* seconds.
        """
        if (code := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self._reports], [], [], seconds)[0]:
            self.returncode = self._report()
            self._reports.close()
        return self.returncode

    def _report(self) -> int:
        line = self._reports.readline()
        assert line, "the process that forks has ended"
        return int(line)


@cache
def _parent() -> socket.socket:
    """Start the process that everything is forked from: one for all tests, gone with them."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # so that a fork's is buffered as that of a new process
            env={**_without_settings(), "PYTHONPATH": os.pathsep.join(_PATH)},
        )
    atexit.register(process.kill)
    return ours


def _without_settings() -> dict[str, str]:
    """Our variables without those that an interpreter reads only when it starts."""
    return {k: v for k, v in os.environ.items() if not k.startswith(_READ_AT_START)}


# The other side.


def _serve(requests: socket.socket) -> None:
    for module in (*_IMPORTED, *_commands()):
        import_module(module)
    gc.freeze()  # or each fork would copy what its garbage collection touches
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.set_wakeup_fd(writes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests, reads], [], [])
        if reads in ready:
            os.read(reads, 4096)
            _bury(running)
        if requests in ready:
            data, received, _, _ = socket.recv_fds(requests, _LARGEST, _DESCRIPTORS)
            if not data:
                return
            *streams, reports = received
            if (pid := os.fork()) == 0:
                requests.close()
                _forget([reads, writes, reports, *running.values()])
                _become(json.loads(data), streams)
            running[pid] = reports
            _say(reports, pid)
            for stream in streams:
                os.close(stream)


def _commands() -> list[str]:
    cli = import_module("walagent.cli")
    return [module.name for module in walk_packages(cli.__path__, "walagent.cli.")]


def _bury(running: dict[int, int]) -> None:
    """Report those that have ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        reports = running.pop(pid)
        _say(reports, os.waitstatus_to_exitcode(status))
        os.close(reports)


def _say(reports: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(reports, b"%d\n" % number)


def _forget(descriptors: Sequence[int]) -> None:
    """Leave to a fork nothing that is its parent's."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor in descriptors:
        os.close(descriptor)


def _become(what: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    """Run what was asked for; it does not outlive the parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for target, source in enumerate(streams):
        os.dup2(source, target)
        os.close(source)
    if what["network"]:
        _move(what["network"])
    if what["terminal"]:
        take_terminal()
        what["environment"].setdefault("LC_CTYPE", "C.UTF-8")  # as an interpreter does
        sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]
    os.chdir(what["folder"])
    environment = what["environment"]
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    random.seed()
    sys.path[: len(_PATH) + 1] = [what["folder"], *environment["PYTHONPATH"].split(os.pathsep)]
    sys.argv[1:] = what["arguments"]
    code = _run(what["module"])
    # An interpreter that ends does this, too, and then frees its memory: here it would copy it.
    threading._shutdown()  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(module: str) -> int:
    try:
        run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 - as an interpreter does
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _move(network: str) -> None:
    with Path(network).open() as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {network}")


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
