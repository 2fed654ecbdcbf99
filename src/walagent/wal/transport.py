"""Exchange messages with the server in COPY mode, without waiting.

Two implementations: one reads the socket or the TLS session itself; the other uses libpq, for a
connection that GSSAPI can encrypt, and for a TLS library that is not OpenSSL.  libpq holds each
message whole, and keeps the memory of the largest one until the connection is closed.  A logical
message can have any content of up to 1 GB, and any role may send one: without libpq, the content of
one that is not walagent's is discarded as it arrives.

Source: PostgreSQL docs, 55.7 Message Formats.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from psycopg import AsyncConnection, Error, OperationalError, errors
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn

from walagent.wal.protocol import HEADER, XLOG_DATA
from walagent.wal.tls import tls_socket

_READ: Final = 1 << 16  # bytes per read of the socket: the event loop runs other tasks between two
_MARKER_MOST: Final = 1 << 14  # bytes; a logical message of walagent has a few hundred
_HEAD: Final = Struct(">cI")  # a message's kind, and its length without the kind
_START: Final = _HEAD.size
_MESSAGE: Final = ord("M")  # pgoutput's logical message
_TELLING: Final = HEADER + 1  # bytes of a frame that tell what it is


class Transport(Protocol):
    """A connection in COPY mode."""

    @property
    def fd(self) -> int:
        """Return the socket to watch."""
        ...

    def fill(self) -> None:
        """Read what has arrived, up to a limit; raises psycopg.Error if the connection is lost."""
        ...

    def drain(self, frames: list[bytes], most: int) -> bool:
        """Append complete frames, up to *most* in all; return whether the server ended COPY."""
        ...

    def put(self, message: bytes) -> None:
        """Send a message when `flush` is called; raises psycopg.Error."""
        ...

    def put_end(self) -> None:
        """Send the end of COPY when `flush` is called; raises psycopg.Error."""
        ...

    def flush(self) -> bool:
        """Send what the socket accepts; return whether something is left."""
        ...

    def farewell(self) -> Error | None:
        """Return the error with which the server ended COPY, if any."""
        ...

    def close(self) -> None:
        """Close the connection at once."""
        ...


def is_foreign(start: bytes | memoryview, length: int) -> bool:
    """Return whether a frame is a logical message that is too long to be walagent's.

    Args:
        start: of the frame, at least its first 26 bytes.
        length: of the whole frame.
    """
    return length > _MARKER_MOST and start[0] == XLOG_DATA and start[HEADER] == _MESSAGE


async def start_copy(conn: AsyncConnection, command: str) -> Transport:
    """Execute a command that starts COPY in both directions.

    Raises:
        psycopg.Error: the server rejected it, or the connection was lost.
    """
    if (stream := _stream_of(conn.pgconn)) is None:
        await conn.execute(command.encode())
        return LibpqTransport(conn.pgconn)
    transport = SocketTransport(conn.pgconn, stream)
    try:
        await transport.start(command)
    except BaseException:
        transport.close()
        raise
    return transport


class _Stream(Protocol):
    """A non-blocking socket."""

    def recv(self, size: int, /) -> bytes: ...
    def send(self, data: bytearray, /) -> int: ...
    def close(self) -> None: ...


def _stream_of(pgconn: PGconn) -> _Stream | None:
    """Return the socket or TLS session of a connection; None if only libpq can read it."""
    if pgconn.ssl_in_use:
        return tls_socket(pgconn)
    if not _is_plain(pgconn):
        return None
    plain = socket.socket(fileno=os.dup(pgconn.socket))
    plain.settimeout(0)
    return plain


def _is_plain(pgconn: PGconn) -> bool:
    """Return whether GSSAPI cannot encrypt the connection; libpq does not say whether it does."""
    options = {option.keyword: option.val for option in pgconn.info}
    return options.get(b"gssencmode", b"disable") == b"disable" or pgconn.host.startswith(
        (b"/", b"@")
    )


class LibpqTransport:
    """Exchanges messages through libpq."""

    def __init__(self, pgconn: PGconn) -> None:
        self._pgconn = pgconn
        self.fd = pgconn.socket
        pgconn.nonblocking = 1

    def fill(self) -> None:
        """Implement `Transport.fill`."""
        self._pgconn.consume_input()

    def drain(self, frames: list[bytes], most: int) -> bool:
        """Take what libpq has buffered: one read of the socket returns many small frames."""
        get, append = self._pgconn.get_copy_data, frames.append
        for _ in range(most - len(frames)):
            length, data = get(1)
            if length <= 0:
                return length < 0
            if length < _MARKER_MOST or not is_foreign(data, length):
                append(data.tobytes())
        return False

    def put(self, message: bytes) -> None:
        """Implement `Transport.put`."""
        self._pgconn.put_copy_data(message)

    def put_end(self) -> None:
        """Implement `Transport.put_end`."""
        self._pgconn.put_copy_end()

    def flush(self) -> bool:
        """Implement `Transport.flush`."""
        return bool(self._pgconn.flush())

    def farewell(self) -> Error | None:
        """Implement `Transport.farewell`."""
        result = self._pgconn.get_result()
        return error_from_result(result) if result and result.error_message.strip() else None

    def close(self) -> None:
        """Implement `Transport.close`."""
        self._pgconn.finish()


class SocketTransport:
    """Exchanges messages through the socket or TLS session of a connection that libpq has opened.

    libpq does not use it from then on, except to close it.
    """

    def __init__(self, pgconn: PGconn, stream: _Stream) -> None:
        self._pgconn = pgconn
        self.fd = pgconn.socket
        self._socket = stream
        self._received = b""
        self._at = 0  # of the next message in `_received`
        # The rest of a message that is longer than one read: its kind, what has arrived of it (None
        # if it is discarded), and how much is missing.
        self._kind = b""
        self._parts: list[bytes] | None = None
        self._missing = 0
        self._out = bytearray()
        self._streaming = False
        self._ended = False
        self._error: Error | None = None

    async def start(self, command: str) -> None:
        """Send a command, and wait until COPY starts."""
        loop = asyncio.get_running_loop()
        self._out += _message(b"Q", command.encode() + b"\0")
        while self.flush():
            await _event(loop.add_writer, loop.remove_writer, self.fd)
        while not self._streaming:
            self.fill()
            self.drain([], 0)
            if self._error is not None:
                raise self._error
            if not self._streaming:
                await _event(loop.add_reader, loop.remove_reader, self.fd)

    def fill(self) -> None:
        """Implement `Transport.fill`."""
        try:
            self._take(self._socket.recv(_READ))
        except BlockingIOError:
            return
        except OSError as error:
            raise OperationalError(str(error)) from error

    def _take(self, data: bytes) -> None:
        if not data:
            if self._error is not None:  # which the server sent before it closed the connection
                self._ended = True
                return
            raise OperationalError("server closed the connection unexpectedly")
        if self._missing:
            part = data[: self._missing]
            self._missing -= len(part)
            if self._parts is not None:
                self._parts.append(part)
            data = data[len(part) :]
        self._received = self._received[self._at :] + data
        self._at = 0

    def drain(self, frames: list[bytes], most: int) -> bool:
        """Append complete frames; the memory of a long one is freed with it."""
        if self._parts is not None and not self._missing:
            if self._streaming and len(frames) >= most:
                return self._ended
            kind, payload, self._parts = self._kind, b"".join(self._parts), None
            self._handle(kind, payload, frames)
        data, at, head = self._received, self._at, _HEAD.unpack_from
        end = len(data)
        while end - at >= _START and not (self._streaming and len(frames) >= most):
            kind, length = head(data, at)
            stop = at + 1 + length
            if stop > end:
                if length > _READ and end - at >= _START + _TELLING:
                    self._begin_long(kind, data[at + _START :], stop - end, length - 4)
                    at = end
                break
            if kind == b"d":
                frames.append(data[at + _START : stop])
            else:
                self._handle(kind, data[at + _START : stop], frames)
            at = stop
        self._at = at
        return self._ended

    def _begin_long(self, kind: bytes, start: bytes, missing: int, length: int) -> None:
        discarded = kind == b"d" and is_foreign(start, length)
        self._kind, self._missing = kind, missing
        self._parts = None if discarded else [start]

    def _handle(self, kind: bytes, payload: bytes, frames: list[bytes]) -> None:
        match kind:
            case b"d":
                frames.append(payload)
            case b"W":
                self._streaming = True
            case b"E":
                self._error = _error_of(payload)
                self._ended = True
            case b"c" | b"Z":
                self._ended = self._streaming
            case _:
                pass  # notices, parameters, notifications, the tag of the command

    def put(self, message: bytes) -> None:
        """Implement `Transport.put`."""
        self._out += _message(b"d", message)

    def put_end(self) -> None:
        """Implement `Transport.put_end`."""
        self._out += _message(b"c", b"")

    def flush(self) -> bool:
        """Implement `Transport.flush`."""
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            return True
        except OSError as error:
            raise OperationalError(str(error)) from error
        return False

    def farewell(self) -> Error | None:
        """Implement `Transport.farewell`."""
        return self._error

    def close(self) -> None:
        """Implement `Transport.close`."""
        self._socket.close()
        self._pgconn.finish()


async def _event(
    add: Callable[[int, Callable[[], None]], object], remove: Callable[[int], object], fd: int
) -> None:
    """Wait until a socket is readable or writable."""
    ready = asyncio.Event()
    add(fd, ready.set)
    try:
        await ready.wait()
    finally:
        remove(fd)


def _message(kind: bytes, payload: bytes) -> bytes:
    return _HEAD.pack(kind, len(payload) + 4) + payload


def _error_of(payload: bytes) -> Error:
    """Parse an ErrorResponse: fields of a letter and a text that ends with a zero byte."""
    fields = {part[:1]: part[1:].decode(errors="replace") for part in payload.split(b"\0") if part}
    words = fields.get(b"M", "")
    try:
        return errors.lookup(fields.get(b"C", ""))(words)
    except KeyError:
        return OperationalError(words)
