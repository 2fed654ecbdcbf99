"""A server of HTTP that answers what a test says, and keeps what it was sent."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it arrived."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Web:
    """Answers each request with the bytes for its path; None: it hangs; empty: it hangs up."""

    port: int = 0
    answers: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    sent: list[Sent] = field(default_factory=list[Sent])
    connections: int = 0
    serving: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                writer.write(await self._answer(reader))
                await writer.drain()
        finally:
            self.serving.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) for line in head[1:] if ": " in line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.sent.append(Sent(head[0], headers, body))
        path = head[0].split(" ")[1].partition("?")[0]
        answer = self.answers.get(path, reply(b'{"ok": true}'))
        if answer is None:
            await asyncio.sleep(60)
        return reply("\n".join(head).encode() + body) if answer == b"echo" else answer or b""


def reply(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """Build an answer."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines])
    return f"{head}\r\nConnection: close\r\n\r\n".encode() + body


@asynccontextmanager
async def web(
    answers: Mapping[str, bytes | None] | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Web]:
    """Serve on a free port of 127.0.0.1."""
    made = Web(answers=dict(answers or {}))
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in made.serving:
            task.cancel()
        await asyncio.gather(*made.serving, return_exceptions=True)
