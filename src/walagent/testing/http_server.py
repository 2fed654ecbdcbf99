"""A small HTTP/1.1 server that can also fail: stall, or truncate a response.

Production servers complete every response, so they cannot do this.  Requests require a
Content-Length, which both SDKs send.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

_LONGEST_HEAD = 64 * 1024  # bytes of a request's head
_PIECE = 16  # bytes per write of a slow response
_END = b"\n\n"  # of an event


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A response.

    Args:
        stall: seconds before the first byte.
        drip: seconds between writes of 16 bytes, or of events of an event stream.
        cut: close the connection after half of the body.
        cut_at: close the connection after this many bytes; counted from the end if negative.
        drop: close the connection before the first byte.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    stall: float = 0.0
    drip: float = 0.0
    cut: bool = False
    cut_at: int | None = None
    drop: bool = False

    @property
    def head(self) -> bytes:
        """Status line and headers."""
        headers = {"content-type": "application/json", **self.headers}
        headers["content-length"] = str(len(self.body))
        phrase = HTTPStatus(self.status).phrase if self.status in _KNOWN else "Overloaded"
        lines = [f"HTTP/1.1 {self.status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    @property
    def is_whole(self) -> bool:
        """Whether the whole response is sent."""
        return not self.cut and self.cut_at is None


Answering = Callable[[Incoming], Awaitable[Outgoing]]


class HttpServer:
    """Answers every request on one port by calling *answer*."""

    def __init__(self, answer: Answering) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamReader] = {}

    @property
    def connections(self) -> int:
        """The number of connections that neither side has closed."""
        return sum(not reader.at_eof() for reader in self._connections.values())

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> int:
        """Listen, and return the port; port 0 selects a free one."""
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=_LONGEST_HEAD, backlog=4096
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the port and every connection."""
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
            pass  # the client has disconnected
        except asyncio.CancelledError:
            pass  # by stop(); asyncio would log a cancelled connection
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()  # otherwise a loop that ends now leaves the socket open
            del self._connections[task]


async def _read(reader: asyncio.StreamReader) -> Incoming | None:
    """Read one request; None at the end of the connection, or if it is not HTTP."""
    begun = await reader.read(1)
    if not begun.isalpha():  # TLS, which would wait for a reply to its handshake
        return None
    head = begun + await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _version = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Incoming(method, path, headers, body)


async def _write(writer: asyncio.StreamWriter, answer: Outgoing) -> bool:
    """Write one response; return False if the connection must be closed."""
    await asyncio.sleep(answer.stall)
    if answer.drop:
        return False
    head = answer.head
    data = head + answer.body
    if not answer.is_whole:
        data = data[: len(head) + len(answer.body) // 2 if answer.cut else answer.cut_at]
    for number, piece in enumerate(_pieces(answer, data)):
        if number:
            await asyncio.sleep(answer.drip)
        writer.write(piece)
        await writer.drain()
    return answer.is_whole


def _pieces(answer: Outgoing, data: bytes) -> Iterator[bytes]:
    if not answer.drip:
        return iter([data])
    if "event-stream" in answer.headers.get("content-type", ""):
        return (part + _END for part in data.removesuffix(_END).split(_END))
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


_KNOWN = frozenset(int(status) for status in HTTPStatus)
