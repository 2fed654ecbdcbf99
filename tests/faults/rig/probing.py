"""Asks the daemon how it is, as an operator's tools do: over HTTP, and as systemd listens."""

import asyncio
import json
import socket
import struct
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.faults.rig.waiting import DEADLINE, until_true

_LOOK = 0.02  # seconds between two looks at what systemd was sent
_EVERY = 0.2  # seconds between two looks at /healthz
_PATIENCE = 5.0  # seconds for an answer on a busy machine


async def ask(port: int, path: str, *, patience: float = _PATIENCE) -> tuple[int, dict[str, Any]]:
    """Status and body of what it answers now; status 0 when nobody does."""
    return await asyncio.to_thread(_ask, port, path, patience)


def _ask(port: int, path: str, patience: float) -> tuple[int, dict[str, Any]]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=patience) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
    except OSError:
        return 0, {}


async def is_ready(
    port: int, *, seconds: float = DEADLINE, expected: int = HTTPStatus.OK, reason: str = ""
) -> float:
    """Wait for an answer of /readyz, with *reason* among its reasons; return how long it took."""

    async def answers() -> bool:
        status, body = await ask(port, "/readyz")
        return status == expected and (not reason or reason in " ".join(body["reasons"]))

    return await until_true(answers, f"/readyz answers {expected} {reason}", seconds=seconds)


async def is_not_ready(port: int, reason: str = "") -> float:
    """Wait until /readyz answers 503, with *reason* among its reasons."""
    return await is_ready(port, expected=HTTPStatus.SERVICE_UNAVAILABLE, reason=reason)


@asynccontextmanager
async def always_alive(port: int) -> AsyncIterator[None]:
    """See /healthz answer 200 again and again until the block ends."""

    async def look() -> None:
        while True:
            status, _ = await ask(port, "/healthz")
            assert status == HTTPStatus.OK, f"/healthz answers {status}"
            await asyncio.sleep(_EVERY)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


class Manager:
    """A socket as systemd has it, and what was sent to it."""

    def __init__(self, listening: socket.socket, interval: float) -> None:
        self._listening = listening
        self.environment = {
            "NOTIFY_SOCKET": listening.getsockname(),
            "WATCHDOG_USEC": str(round(interval * 1e6)),
        }

    def read(self) -> list[str]:
        """What has come since the last time, a message each."""
        messages = list[str]()
        with suppress(BlockingIOError):
            while True:
                messages.append(self._listening.recv(4096).decode())
        return messages

    async def hears(self, words: str, *, seconds: float = DEADLINE) -> str:
        """Wait for a message with *words*."""
        found = list[str]()

        async def said() -> bool:
            found.extend(message for message in self.read() if words in message)
            return bool(found)

        await until_true(said, f"systemd hears {words}", seconds=seconds)
        return found[0]

    async def falls_silent(self, seconds: float, *, patience: float = DEADLINE) -> float:
        """Wait until no sign of life has come for *seconds*; return how long that took."""
        last = started = time.monotonic()
        while (now := time.monotonic()) - last < seconds:
            assert now - started < patience, "signs of life go on"
            if any("WATCHDOG=1" in message for message in self.read()):
                last = now
            await asyncio.sleep(_LOOK)
        return now - started

    async def is_fed(self, seconds: float) -> bool:
        """Whether a sign of life comes within *seconds* from now."""
        self.read()
        with suppress(AssertionError):
            return bool(await self.hears("WATCHDOG=1", seconds=seconds))
        return False


@contextmanager
def manager(interval: float) -> Iterator[Manager]:
    """Listen as systemd does, with a watchdog of *interval* seconds."""
    with (
        tempfile.TemporaryDirectory(prefix="wa-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
    ):
        listening.bind(f"{folder}/notify")
        listening.settimeout(0)
        yield Manager(listening, interval)


@asynccontextmanager
async def doorbell(path: Path) -> AsyncIterator[Counter[str]]:
    """Stand where a server is down, send everybody away, and count who came.

    Args:
        path: of the server's Unix socket.

    Yields:
        how often each application_name tried; `replication` stands for what would stream.
    """
    rung = Counter[str]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            (length,) = struct.unpack("!I", await reader.readexactly(4))
            words = (await reader.readexactly(length - 4))[4:].rstrip(b"\0").split(b"\0")
            given = dict(zip(words[::2], words[1::2], strict=False))
            part = b"replication" if b"replication" in given else b"application_name"
            rung["replication" if part == b"replication" else given.get(part, b"").decode()] += 1
        writer.transport.abort()

    server = await asyncio.start_unix_server(answer, path)
    try:
        yield rung
    finally:
        server.close()
