"""`walagent` as a process, and what became of it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
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


def _output() -> IO[str]:
    return TemporaryFile("w+", encoding="utf-8")


def _all_of(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _write(pipe: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(data)
