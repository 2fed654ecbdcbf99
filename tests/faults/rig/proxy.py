"""A bad network: stands on a TCP port between a client and PostgreSQL, and misbehaves on request.

It reads along as far as it must to tell connections apart and to find a statement: startup
message, Parse, Bind and Query from the client, ReadyForQuery from the server.

Source: PostgreSQL docs, 55.7 Message Formats.
"""

import asyncio
import re
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

REPLICATION = "replication"  # the part of the connection that streams
_CANCEL, _SSL, _GSS = 80877102, 80877103, 80877104  # codes in place of a protocol version
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Needle:
    """A statement that is looked for, and what is lost when it is found.

    Args:
        part: the application_name of whoever sends it.
        words: a part of its text, lower case; empty: any statement.
        rows: only an answer that has rows.
        request: it never reaches the server, instead of its answer never coming back.
    """

    part: str
    words: bytes
    rows: bool = False
    request: bool = False


class Answers:
    """Follows an HTTP server's answers, to know whether a cut falls between two of them."""

    def __init__(self) -> None:
        """Wait for the first."""
        self._head = b""
        self._rest = 0  # bytes of a body
        self.whole = False  # nothing of an answer is missing

    def feed(self, data: bytes) -> None:
        """See what has reached the client."""
        while data:
            if self._rest:
                taken = min(self._rest, len(data))
            else:
                taken = 1
                self._head += data[:1]
            self._rest -= min(taken, self._rest)
            data = data[taken:]
            if self._head.endswith(b"\r\n\r\n"):
                self._rest = int(re.findall(rb"content-length: (\d+)", self._head.lower())[0])
                self._head = b""
            self.whole = not self._head and not self._rest


@dataclass(eq=False, slots=True)
class Link:
    """One connection, from the client to us and from us to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    part: str = ""  # its application_name, or REPLICATION
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    delay: float = 0.0  # seconds for each piece, one after the other, either way
    latency: float = 0.0  # seconds that all of it is under way, either way
    piece: int = _CHUNK  # bytes at a time to the client
    left: int | None = None  # bytes to the client until it is cut
    answers: Answers = field(default_factory=Answers)
    needle: Needle | None = None  # that was found here
    withheld: bytearray = field(default_factory=bytearray)  # what the server has answered to it
    swallowing: bool = False
    statements: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])

    def cut(self) -> None:
        """Reset both sides."""
        self.client.transport.abort()
        self.server.transport.abort()

    async def close(self) -> None:
        """Close what is still open, and see it closed."""
        for side in (self.client, self.server):
            side.close()
        await asyncio.gather(
            self.client.wait_closed(), self.server.wait_closed(), return_exceptions=True
        )

    def swallow(self) -> None:
        """Take everything that either side sends, and let none of it out: nobody is told."""
        self.swallowing = True

    def leave_half_open(self) -> None:
        """Let the server see the connection end, and the client see nothing."""
        self.flowing.clear()
        self.server.transport.abort()


class Proxy:
    """Passes everything on, until told otherwise."""

    def __init__(self, dsn: str) -> None:
        self._target = conninfo_to_dict(dsn)
        self._dsn = dsn
        self._port = 0
        self._needle: Needle | None = None
        self._skip = 0  # statements that fit and are let through before
        self._ways = set[asyncio.Task[None]]()
        self._links_open = set[asyncio.Task[None]]()
        self.links: list[Link] = []
        self.delay = 0.0  # of links to come
        self.latency = 0.0  # the same
        self.piece = _CHUNK
        self.dropped = 0  # replies and requests
        self._cuts = list[int]()  # of links to come: the bytes after which each is cut
        self.refused: set[str] | None = None  # parts whose first and third links are cut
        self._links_of = Counter[str]()
        self.links_cut = 0
        self.answers_cut = 0  # of an HTTP server: a cut between two loses nothing

    @property
    def dsn(self) -> str:
        """The connection string that leads through here."""
        return make_conninfo(
            self._dsn,
            host="127.0.0.1",
            port=self._port,
            sslmode="disable",
            gssencmode="disable",
        )

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return self._port

    @asynccontextmanager
    async def listen(self) -> AsyncIterator["Proxy"]:
        """Take connections for as long as the block lasts."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for link in self.links:
                link.cut()
            for task in self._ways:
                task.cancel()
            await asyncio.gather(*self._ways, *self._links_open, return_exceptions=True)

    def of(self, part: str) -> list[Link]:
        """The connections of a part that stand now."""
        return [link for link in self.links if link.part == part]

    def drop_reply(self, part: str, statement: str, *, rows: bool = False) -> None:
        """Once: let the server carry *statement* out, lose what it answers, and cut.

        Args:
            part: the application_name of whoever sends it.
            statement: a part of its text, lower case.
            rows: only an answer that has rows.
        """
        self._needle, self._skip = Needle(part, statement.encode(), rows=rows), 0

    def drop_request(self, part: str, statement: str) -> None:
        """Once: cut when *statement* comes, before any of it has reached the server."""
        self._needle, self._skip = Needle(part, statement.encode(), request=True), 0

    def drop_nth(self, part: str, skip: int, *, request: bool) -> None:
        """Once: lose the request or the reply of whatever *part* sends after *skip* statements."""
        self._needle, self._skip = Needle(part, b"", request=request), skip

    def cut_links(self, after: Iterable[int]) -> None:
        """Cut one link to come after each of so many bytes to its client; 0 leaves nothing."""
        self._cuts.extend(after)

    # The traffic.

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, server = await self._open_server()
        except OSError:
            writer.transport.abort()
            return
        left = self._cuts.pop(0) if self._cuts else None
        link = Link(
            writer, server, delay=self.delay, latency=self.latency, piece=self.piece, left=left
        )
        link.flowing.set()
        self.links.append(link)
        ways = [
            asyncio.create_task(self._up(link, reader)),
            asyncio.create_task(self._down(link, back)),
        ]
        connected = asyncio.current_task()
        assert connected is not None
        self._ways.update(ways)
        self._links_open.add(connected)
        try:
            await asyncio.wait(ways)
        finally:
            await link.close()
            self.links.remove(link)
            self._ways.difference_update(ways)
            self._links_open.discard(connected)

    async def _open_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = str(self._target["host"]), str(self._target.get("port") or 5432)
        if host.startswith("/"):
            return await asyncio.open_unix_connection(Path(host) / f".s.PGSQL.{port}")
        return await asyncio.open_connection(host, int(port))

    async def _up(self, link: Link, reader: asyncio.StreamReader) -> None:
        messages = Messages(typed=False)
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                for kind, body in messages.feed(data):
                    self._look_at(link, kind, body)
                if link.needle is not None and link.needle.request:
                    self._drop(link)
                    return
                await link.flowing.wait()
                await asyncio.sleep(link.delay)
                await _send(link, link.server, data)
        if link.flowing.is_set() and not link.swallowing:
            _close(link, link.server)

    async def _down(self, link: Link, reader: asyncio.StreamReader) -> None:
        messages = Messages(typed=True)
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if link.part != REPLICATION:
                    data = self._withhold(link, data, {kind for kind, _ in messages.feed(data)})
                for at in range(0, len(data), link.piece):
                    await link.flowing.wait()
                    await asyncio.sleep(link.delay)
                    piece = data[at : at + link.piece][: link.left]
                    await _send(link, link.client, piece)
                    if link.left is not None:
                        link.answers.feed(piece)
                        link.left -= len(piece)
                        if link.left == 0:
                            self._cut_now(link)
                            return
        if link.flowing.is_set() and not link.swallowing:
            _close(link, link.client)

    def _cut_now(self, link: Link) -> None:
        """End the connection so that the client has got every byte before the cut."""
        self.links_cut += 1
        self.answers_cut += not link.answers.whole
        link.client.close()
        link.server.transport.abort()

    def _withhold(self, link: Link, data: bytes, kinds: set[bytes]) -> bytes:
        """Keep an answer back until it is complete; return what may go on."""
        if link.needle is None:
            return data
        link.withheld += data
        if b"Z" not in kinds:  # ReadyForQuery: it has been carried out
            return b""
        answer, needle = bytes(link.withheld), link.needle
        if needle.rows and not any(kind == b"D" for kind, _ in Messages(typed=True).feed(answer)):
            self._needle, link.needle, link.withheld = needle, None, bytearray()
            return answer
        self._drop(link)
        return b""

    def _drop(self, link: Link) -> None:
        link.needle = None
        self.dropped += 1
        link.cut()

    def _look_at(self, link: Link, kind: bytes, body: bytes) -> None:
        match kind:
            case b"":
                link.part = _part(body)
                self._links_of[link.part] += 1
                if self.refused is not None and self._links_of[link.part] in {1, 3}:
                    self.refused.add(link.part)
                    link.cut()
            case b"P":
                name, statement, *_ = body.split(b"\0")
                link.statements[name] = statement
            case b"B":
                _, name, *_ = body.split(b"\0", 2)
                self._check(link, link.statements.get(name, b""))
            case b"Q":
                self._check(link, body)
            case _:
                pass

    def _check(self, link: Link, statement: bytes) -> None:
        needle = self._needle
        if needle is None or link.part != needle.part or needle.words not in statement.lower():
            return
        self._skip -= 1
        if self._skip < 0:
            self._needle, link.needle = None, needle


async def _send(link: Link, to: asyncio.StreamWriter, data: bytes) -> None:
    if link.swallowing:
        return
    if link.latency:
        asyncio.get_running_loop().call_later(link.latency, _write, link, to, data)
        return
    to.write(data)
    await to.drain()


def _write(link: Link, to: asyncio.StreamWriter, data: bytes) -> None:
    if not (to.transport.is_closing() or link.swallowing):
        to.write(data)


def _close(link: Link, to: asyncio.StreamWriter) -> None:
    """Close behind what is still under way."""
    asyncio.get_running_loop().call_later(link.latency, to.close)


class Messages:
    """Cuts a direction of the protocol into messages."""

    def __init__(self, *, typed: bool) -> None:
        """Begin; the client's first message has no type."""
        self._typed = typed
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield type and body of the messages that are complete with *data*."""
        self._rest += data
        while True:
            head = 1 if self._typed else 0
            if len(self._rest) < head + 4:
                return
            (length,) = struct.unpack_from("!I", self._rest, head)
            if len(self._rest) < head + length:
                return
            kind, body = self._rest[:head], self._rest[head + 4 : head + length]
            self._rest = self._rest[head + length :]
            self._typed = True
            yield kind, body


def _part(startup: bytes) -> str:
    (code,) = struct.unpack_from("!I", startup)
    assert code not in {_SSL, _GSS}, "the connection string forbids this"
    if code == _CANCEL:
        return "cancel"
    words = startup[4:].rstrip(b"\0").split(b"\0")
    given = dict(zip(words[::2], words[1::2], strict=True))
    return REPLICATION if b"replication" in given else given[b"application_name"].decode()
