"""Pass connections to a server on, and count what passes: round trips and bytes.

A round trip ends with the server's ReadyForQuery, whatever statements it had.  A replication stream
has none while it streams.

Source: PostgreSQL docs, 54.7 Message Formats.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

_READY = ord("Z")
_HEAD = 5  # bytes of a message: its type and its length, which does not count the type


@dataclass(slots=True)
class Passed:
    """What has passed since the start."""

    connections: int = 0
    round_trips: int = 0
    sent: int = 0  # bytes to the server
    received: int = 0


class _Messages:
    """Counts ReadyForQuery in a stream that arrives in pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._skip = 0  # bytes of a message's body that have not arrived

    def count(self, data: bytes) -> int:
        """How many of them are in *data*."""
        found, at = 0, 0
        data = self._rest + data
        while True:
            step = min(self._skip, len(data) - at)
            at, self._skip = at + step, self._skip - step
            if len(data) - at < _HEAD:
                break
            found += data[at] == _READY
            self._skip = int.from_bytes(data[at + 1 : at + _HEAD], "big") - 4
            at += _HEAD
        self._rest = data[at:]
        return found


class Relay:
    """Listens on a port of its own; clients must not ask for encryption."""

    def __init__(self, host: str, port: int) -> None:
        self._to = host, port
        self._passed = Passed()
        self.port = 0

    def read(self) -> Passed:
        """Return what has passed."""
        return replace(self._passed)

    async def serve(self, ready: threading.Event) -> None:
        """Accept connections until cancelled."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._passed.connections += 1
        with suppress(OSError, asyncio.CancelledError):
            answers, requests = await asyncio.open_connection(*self._to)
            asking = asyncio.create_task(self._ask(reader, requests))
            messages = _Messages()
            while data := await answers.read(1 << 16):
                self._passed.round_trips += messages.count(data)
                self._passed.received += len(data)
                writer.write(data)
                await writer.drain()
            asking.cancel()
            requests.transport.abort()
        writer.transport.abort()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                self._passed.sent += len(data)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@contextmanager
def relay_to(host: str, port: int) -> Iterator[Relay]:
    """Run a relay in a thread of its own, which leaves the measured process alone."""
    relay, ready = Relay(host, port), threading.Event()
    loop = asyncio.new_event_loop()
    serving = loop.create_task(relay.serve(ready))

    async def end() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)
        loop.run_until_complete(end())

    thread = threading.Thread(target=run, name="relay", daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield relay
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join(5)
        loop.close()
