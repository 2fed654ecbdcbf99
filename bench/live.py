"""Clients of server-sent events, light enough to be thousands in one process."""

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.measure import rss_kb
from bench.scripts import BENCH, environment, interpreter

SHAPE = "/v1/shape?secret=bench"
_LONGEST = 120.0  # seconds
_READY = b"up-to-date"
_SUBJECT = re.compile(rb'"subject": ?"n(\d+)"')


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs beside."""

    port: int
    pid: int

    def rss_kb(self) -> int:
        """Its resident memory."""
        return rss_kb(self.pid)


@contextmanager
def served(script: str, url: str) -> Iterator[Served]:
    """Run a server of `ours/` or `peers/`, which prints its port."""
    path = BENCH / f"{script}.py"
    command = [str(interpreter(path)), str(path), "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.strip().isdigit(), f"{script} ended"
            yield Served(int(line), process.pid)
        finally:
            process.kill()


@dataclass(slots=True)
class Clients:
    """Connections to one server: when each row arrived at each of them."""

    arrived: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    ready: int = 0
    lost: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> None:
        """Wait until something happens to one of them."""
        self.wake.clear()
        async with asyncio.timeout(_LONGEST):
            await self.wake.wait()


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, clients: Clients, path: str) -> None:
        self._clients = clients
        self._path = path
        self._is_ready = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        """Note which rows arrived."""
        now = time.time()
        if not self._is_ready and _READY in data:
            self._is_ready = True
            self._clients.ready += 1
            self._clients.wake.set()
        for found in _SUBJECT.finditer(data):
            self._clients.arrived.setdefault(int(found[1]), []).append(now)
            self._clients.wake.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of asyncio
        """Count it."""
        self._clients.lost += 1
        self._clients.wake.set()


async def connect(port: int, paths: Sequence[str]) -> Clients:
    """Open a connection for each path, and wait until all are up to date."""
    clients, loop = Clients(), asyncio.get_running_loop()
    for path in paths:
        await loop.create_connection(lambda path=path: _Client(clients, path), "127.0.0.1", port)
    while clients.ready < len(paths):
        assert not clients.lost, f"{clients.lost} connections were closed"
        await clients.next()
    return clients


async def whole_shape(port: int, query: str) -> int:
    """Fetch a shape until it is up to date; return its bytes."""
    headers, size = await _get(port, f"{SHAPE}&{query}&offset=-1")
    while "electric-up-to-date" not in headers:
        place = f"offset={headers['electric-offset']}&handle={headers['electric-handle']}"
        headers, more = await _get(port, f"{SHAPE}&{query}&{place}")
        size += more
    return size


async def live_path(port: int, query: str) -> str:
    """Make a shape; return the path of its event stream."""
    headers, _ = await _get(port, f"{SHAPE}&{query}&offset=-1")
    place = f"offset={headers['electric-offset']}&handle={headers['electric-handle']}"
    return f"{SHAPE}&{query}&{place}&live=true&live_sse=true"


async def _get(port: int, path: str) -> tuple[Mapping[str, str], int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    assert " 200 " in head[0], json.dumps(head)
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
    size = 0
    while data := await reader.read(1 << 20):
        size += len(data)
    writer.close()
    return headers, size
