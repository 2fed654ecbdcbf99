"""Messages of COPY, read from a socket in any pieces."""

import asyncio
import socket
from struct import pack

import pytest
from psycopg import Error, OperationalError
from psycopg.errors import AdminShutdown

from tests.unit.wal.encode import HEAD
from walagent.wal.transport import SocketTransport, is_foreign

STARTED = b"W" + pack(">IBH", 7, 0, 0)
NOTICE = b"N" + pack(">I", 9) + b"SLOG\0"
SHUTDOWN = b"SFATAL\0C57P01\0Mterminating connection\0\0"
ROW = HEAD + b"I" + b"x" * 50
LONG_ROW = HEAD + b"I" + b"y" * 200_000
LONG_MESSAGE = HEAD + b"M" + b"z" * 200_000


class Connection:
    """What the transport needs of libpq's connection."""

    def __init__(self, fd: int) -> None:
        self.socket = fd

    def finish(self) -> None:
        """The socket belongs to the test."""


def message(kind: bytes, payload: bytes) -> bytes:
    """A message of the protocol."""
    return kind + pack(">I", len(payload) + 4) + payload


async def started(theirs: socket.socket, ours: socket.socket, reply: bytes) -> SocketTransport:
    """A transport whose command the server has answered."""
    ours.settimeout(0)
    transport = SocketTransport(Connection(ours.fileno()), ours)  # pyright: ignore[reportArgumentType]  # all that it needs
    theirs.sendall(reply)
    try:
        await transport.start("START_REPLICATION")
    except Error:
        transport.close()
        raise
    assert theirs.recv(100) == message(b"Q", b"START_REPLICATION\0")
    return transport


@pytest.mark.parametrize("piece", [1, 7, 30, 1000, 65_536, 1 << 20])
async def test_frames_come_whole_however_they_arrive(piece: int) -> None:
    """Also long ones; the content of a long logical message is discarded."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        transport = await started(theirs, ours, NOTICE + STARTED)
        frames = [ROW, b"k", LONG_ROW, LONG_MESSAGE, ROW, HEAD + b"M" + b"short", ROW]
        sent = NOTICE.join(message(b"d", each) for each in frames) + message(b"c", b"")
        found, ended = list[bytes](), False
        piece = max(piece, len(sent) // 20_000)  # as many reads as a test has time for
        for at in range(0, len(sent), piece):
            rest = memoryview(sent)[at : at + piece]
            while rest:
                rest = rest[theirs.send(rest[: 1 << 15]) :]
                transport.fill()
                ended = transport.drain(found, len(found) + 2)
        while not ended:
            ended = transport.drain(found, len(found) + 2)
        assert found == [each for each in frames if each is not LONG_MESSAGE]
        assert transport.farewell() is None
        transport.close()


async def test_the_last_error_of_the_server_is_kept() -> None:
    """Its SQLSTATE decides what happens next; without one, the connection was lost."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        transport = await started(theirs, ours, STARTED + message(b"d", ROW))
        theirs.sendall(message(b"E", SHUTDOWN))
        transport.fill()
        frames = list[bytes]()
        assert transport.drain(frames, 10)
        assert frames == [ROW]
        error = transport.farewell()
        assert isinstance(error, AdminShutdown)
        assert str(error) == "terminating connection"
        transport.close()
    theirs, ours = socket.socketpair()
    with ours:
        with theirs:
            transport = await started(theirs, ours, STARTED)
        with pytest.raises(OperationalError):
            transport.fill()
        transport.close()


async def test_a_refused_command_raises_its_error() -> None:
    """Nothing streams."""
    theirs, ours = socket.socketpair()
    refusal = message(b"E", b"SERROR\0C55006\0Mslot is active\0\0") + message(b"Z", b"I")
    with theirs, ours, pytest.raises(Error, match="slot is active") as raised:
        await started(theirs, ours, refusal)
    assert raised.value.sqlstate == "55006"


async def test_what_the_socket_does_not_accept_is_sent_later() -> None:
    """Nothing waits for a server that does not read."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        transport = await started(theirs, ours, STARTED)
        transport.put(b"s" * 4_000_000)
        assert transport.flush()
        received = bytearray()
        theirs.settimeout(0)
        async with asyncio.timeout(10):
            while transport.flush() or len(received) < 4_000_005:
                received += await asyncio.get_running_loop().sock_recv(theirs, 1 << 20)
        assert bytes(received) == message(b"d", b"s" * 4_000_000)
        transport.close()


def test_only_long_logical_messages_are_foreign() -> None:
    """A marker of ours is short, and a row can have any length."""
    assert is_foreign(LONG_MESSAGE, len(LONG_MESSAGE))
    assert not is_foreign(LONG_MESSAGE, 1000)
    assert not is_foreign(LONG_ROW, len(LONG_ROW))
    assert not is_foreign(b"k" + LONG_MESSAGE[1:], len(LONG_MESSAGE))
