"""The daemon and the writer as processes of their own, to be killed, frozen and read about."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from tests.faults.rig.stage import CREDENTIAL, KEY, TOOLS, Place
from tests.faults.rig.tools import OUTSIDE
from tests.faults.rig.waiting import DEADLINE, until_true
from tests.helpers.forking import Forked, can_fork

ROOT = Path(__file__).parent.parent.parent.parent
LEASE = 2.0  # seconds; a dead worker's runs are taken over after this

Settings = Mapping[str, Mapping[str, Any]]


class Process:
    """A process that writes to a file, and is gone at the end of the test."""

    forks: ClassVar[bool] = True  # see `tests.helpers.forking`

    def __init__(self, path: Path, command: list[str], environment: Mapping[str, str]) -> None:
        """Start it.

        Args:
            path: of the file that gets its stderr, after what is there.
            command: `python -m` and so on.
        """
        self.path = path
        with path.open("ab") as file:
            self._begins = file.tell()
        complete = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environment}
        self._popen = self._start(command, complete)

    def _start(
        self, command: list[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | Forked:
        folder = self.path.parent  # where there is no agents.yaml and no .env
        with Path(os.devnull).open("r+b") as nothing, self.path.open("ab") as log:
            streams = (nothing.fileno(), nothing.fileno(), log.fileno())
            if self.forks and can_fork(environment):
                inside = command.index(sys.executable)
                module, *words = command[inside + 2 :]
                network = _network_of(command[:inside])
                return Forked(
                    module, words, streams=streams, folder=folder,
                    environment=environment, network=network,
                )  # fmt: skip
            stdin, stdout, stderr = streams
            return subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder, env=environment
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def rss(self) -> int:
        """Bytes of memory that it has in use."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def said(self) -> str:
        """What it has written so far."""
        with self.path.open("rb") as file:
            file.seek(self._begins)
            return file.read().decode(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End it as `kill -9` does, and see it gone."""
        self._popen.kill()
        self._popen.wait(10)

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._popen.poll() is not None

    @property
    def is_stopped(self) -> bool:
        """Whether it stands still, as after SIGSTOP."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def is_alive(self) -> None:
        """Raise if it has ended."""
        assert not self.has_ended, f"ended with {self._popen.returncode}: {self.said[-3000:]}"

    async def ended(self, *, seconds: float = DEADLINE) -> int:
        """Wait until it has ended; return its exit code."""

        async def is_over() -> bool:
            return self.has_ended

        await until_true(is_over, f"{self._popen.args} ends", seconds=seconds)
        code = self._popen.returncode
        assert code is not None
        return code


class Daemon(Process):
    """`walagent run`, or another command that stays."""

    def __init__(
        self,
        place: Place,
        *,
        settings: Settings | None = None,
        name: str = "",
        failpoint: str = "",
        environment: Mapping[str, str] | None = None,
        command: str = "run",
        inside: Sequence[str] = (),
    ) -> None:
        """Start it on the place's database and slot.

        Args:
            settings: of agents.yaml, beside those that every test here wants.
            failpoint: as WALAGENT_FAILPOINT has it.
            environment: variables beside those of the test.
            inside: a command that runs another one elsewhere; see `rig.network`.
        """
        self.config = config = place.folder / f"daemon{name}.json"
        config.write_text(json.dumps(config_of(place, settings or {})))
        login = ["--dsn", place.dsn] if place.dsn else []
        words = [*command.split(), *login, "--config", str(config)]
        variables = {
            "WALAGENT_FAILPOINT": failpoint,
            OUTSIDE: str(place.folder / "outside"),
            CREDENTIAL: KEY,
            **(environment or {}),
        }
        super().__init__(
            place.folder / f"daemon{name}.log",
            [*inside, sys.executable, "-m", "walagent", *words],
            variables,
        )

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has logged."""
        lines = self.said.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line[:1] == "{" and line.endswith("}\n")]

    def count(self, event: str) -> int:
        """How often it has logged *event*."""
        return sum(each["event"] == event for each in self.events)

    async def has_said(self, event: str, *, times: int = 1, seconds: float = DEADLINE) -> float:
        """Wait until it has logged *event*; return how long that took."""

        async def said() -> bool:
            found = self.count(event) >= times
            if not found:
                self.is_alive()
            return found

        return await until_true(said, event, seconds=seconds)


class FreshDaemon(Daemon):
    """The same command in an interpreter of its own, whose memory is its own as well."""

    forks = False


def _network_of(command: list[str]) -> str:
    """The namespace that `Host.inside` names; a fork enters it by itself."""
    named = (word.removeprefix("--net=") for word in command if word.startswith("--net="))
    return next(named, "")


P = TypeVar("P", bound=Process)


@contextmanager
def running(process: P) -> Iterator[P]:
    """See a process gone at the end of the block."""
    try:
        yield process
    finally:
        process.signal(signal.SIGCONT)
        process.kill()


ENDLESS = 10**9  # changes, of a writer that is told when to stop


def start_writer(place: Place, *, seed: int, changes: int = ENDLESS, window: int = 200) -> Process:
    """Start the application; see `rig.writer`."""
    words = [place.dsn, str(seed), str(changes), str(window)]
    command = [sys.executable, "-m", "tests.faults.rig.writer", *words]
    return Process(place.folder / "writer.log", command, {})


def config_of(place: Place, settings: Settings) -> Settings:
    """The sections of agents.yaml that every test here wants, and *settings* over them."""
    sections: dict[str, Mapping[str, Any]] = {
        "replication": {"slot": place.slot, "sender_timeout": 2},
        "workers": {"lease": LEASE, "poll": 0.5, "slots": 20, "connections": 6, "drain": 10},
        "http": {"enabled": False},
        "tools": {"modules": [TOOLS]},
    }
    return {
        name: {**sections.get(name, {}), **settings.get(name, {})}
        for name in sections.keys() | settings.keys()
    }


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def pause(seconds: float) -> None:
    """Let chance decide when something happens; nothing is ever waited for this way."""
    await asyncio.sleep(seconds)
