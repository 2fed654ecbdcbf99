"""A small HTTP/1.1 server that can also misbehave: be silent, or cut an answer short.

Servers made for serving take pains to end every answer properly, so they cannot do this.
Requests must carry a Content-Length, as both SDKs' do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

_LONGEST_HEAD = 64 * 1024  # bytes of a request's head


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An answer.

    Args:
        stall: seconds of silence before it.
        cut: the connection ends after half of the body.
        drop: the connection ends before the first byte.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    stall: float = 0.0
    cut: bool = False
    drop: bool = False


Answering = Callable[[Incoming], Awaitable[Outgoing]]


class HttpServer:
    """Answers every request on one port by calling *answer*."""

    def __init__(self, answer: Answering) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamReader] = {}

    @property
    def connections(self) -> int:
        """How many connections are open, on the other side too."""
        return sum(not reader.at_eof() for reader in self._connections.values())

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> int:
        """Listen, and give the port; 0 lets the system choose one."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=_LONGEST_HEAD, backlog=4096
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the port and every connection, whatever they wait for."""
        if self._server is None:
            return
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs has a task
        self._connections[task] = reader
        try:
            while (incoming := await _read(reader)) is not None:
                if not await _write(writer, await self._answer(incoming)):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has gone, which is its right
        except asyncio.CancelledError:
            pass  # stop() wants it; asyncio would log a cancelled connection
        finally:
            del self._connections[task]
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Incoming | None:
    """Read one request; None when the connection ended between two."""
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _version = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Incoming(method, path, headers, body)


async def _write(writer: asyncio.StreamWriter, answer: Outgoing) -> bool:
    """Write one answer; False when the connection must end."""
    await asyncio.sleep(answer.stall)
    if answer.drop:
        return False
    headers = {"content-type": "application/json", **answer.headers}
    headers["content-length"] = str(len(answer.body))
    phrase = HTTPStatus(answer.status).phrase if answer.status in _KNOWN else "Overloaded"
    lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    writer.write(head + (answer.body[: len(answer.body) // 2] if answer.cut else answer.body))
    await writer.drain()
    return not answer.cut


_KNOWN = frozenset(int(status) for status in HTTPStatus)
