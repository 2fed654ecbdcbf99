"""`walagent` as a process, and what became of it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any

from tests.helpers.forking import Forked, can_fork, take_terminal
from walagent.message import Json

Process = subprocess.Popen[bytes] | Forked


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Json:
        """What it printed, as JSON."""
        return json.loads(self.out)

    def worked(self) -> "Ended":
        """See that it did what it was told."""
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        assert "Traceback" not in self.err
        return self


def run_command(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: str = "",
    patience: float,
) -> Ended:
    """Run `walagent` with *arguments* to its end.

    Args:
        patience: seconds that it may take.
    """
    reads, writes = os.pipe()
    with _output() as out, _output() as errors, os.fdopen(reads) as given:
        process = start_command(
            arguments, streams=(given, out, errors), folder=folder, environment=environment
        )
        Thread(target=_write, args=[writes, stdin.encode()], daemon=True).start()
        try:
            code = process.wait(patience)
        finally:
            process.kill()
        return Ended(code, _all_of(out), _all_of(errors))


def start_command(
    arguments: Sequence[str],
    *,
    streams: tuple[IO[Any], IO[Any], IO[Any]],
    folder: Path,
    environment: Mapping[str, str],
    terminal: bool = False,
) -> Process:
    """Start `walagent` with *arguments*; forked, if that makes no difference.

    Args:
        streams: its stdin, stdout and stderr.
        terminal: they are a terminal, which sends it signals.
    """
    stdin, stdout, stderr = (stream.fileno() for stream in streams)
    if can_fork(environment):
        return Forked(
            "walagent", arguments,
            streams=(stdin, stdout, stderr), folder=folder, environment=environment,
            terminal=terminal,
        )  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "walagent", *arguments],
        cwd=folder, env=environment, stdin=stdin, stdout=stdout, stderr=stderr,
        preexec_fn=take_terminal if terminal else None,  # noqa: PLW1509 - its Ctrl-C is ours
    )  # fmt: skip


class Running:
    """A command that runs: what coroutines use of `asyncio.subprocess.Process`."""

    def __init__(self, process: Process) -> None:
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code once it has ended."""
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for its end; return the exit code."""
        while (code := self.returncode) is None:  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(0.01)
        return code

    async def communicate(self) -> tuple[bytes | None, bytes | None]:
        """Read what it prints until its end."""
        out, errors = [each and await each.read() for each in (self.stdout, self.stderr)]
        await self.wait()
        return out, errors


@asynccontextmanager
async def running(
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str],
    read: Sequence[str] = (),
    last: int = signal.SIGTERM,
) -> AsyncIterator[Running]:
    """Start `walagent` with *arguments*, as `start_command` does, and end it at the end.

    Args:
        read: of "stdout" and "stderr", those that are read; the others are the test's.
        last: the signal that ends it.
    """
    async with AsyncExitStack() as stack:
        writes, readers = dict[int, int](), dict[str, asyncio.StreamReader]()
        for number, name in ((1, "stdout"), (2, "stderr")):
            if name in read:
                reads, writes[number] = os.pipe()
                readers[name] = await _reader(stack, reads)
        process = Running(_start(arguments, writes, folder, environment))
        process.stdout, process.stderr = readers.get("stdout"), readers.get("stderr")
        try:
            yield process
        finally:
            process.send_signal(last)
            await process.wait()


def _start(
    arguments: Sequence[str], pipes: Mapping[int, int], folder: Path, environment: Mapping[str, str]
) -> Process:
    """Start it with these pipes instead of the test's descriptors 1 and 2."""
    with ExitStack() as files:
        nothing = files.enter_context(Path(os.devnull).open())
        out, errors = (
            files.enter_context(os.fdopen(pipes.get(n, n), "wb", closefd=n in pipes))
            for n in (1, 2)
        )
        streams = (nothing, out, errors)
        return start_command(arguments, streams=streams, folder=folder, environment=environment)


async def _reader(stack: AsyncExitStack, descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )
    stack.callback(transport.close)
    return reader


def _output() -> IO[str]:
    return TemporaryFile("w+", encoding="utf-8")


def _all_of(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _write(pipe: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(data)
