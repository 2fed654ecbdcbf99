"""Read frames from the socket of a streaming connection and send messages, without waiting.

Every call returns at once; the owner of the event loop decides when to call.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from psycopg import Error, OperationalError
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn

from walagent.errors import StreamLostError, WalagentError
from walagent.wal.refusals import refused

# The most frames per call, so that the event loop runs other tasks every few milliseconds.
# libpq's buffer bounds their bytes: it holds one read, or one larger message.
_FRAMES: Final = 1000
_SHORT: Final = 50


class Wire:
    """Frames of a connection in COPY mode.

    Args:
        on_readable: called when data has arrived, while reading is on.
    """

    def __init__(self, pgconn: PGconn, slot: str, on_readable: Callable[[], None]) -> None:
        self._pgconn = pgconn
        self._slot = slot
        self.on_readable = on_readable
        self._loop = asyncio.get_running_loop()
        self._socket = pgconn.socket
        self.reading = False
        self.ended = False  # the server has ended the stream
        pgconn.nonblocking = 1

    def start(self) -> None:
        """Watch the socket.  Data buffered in libpq does not trigger it: also call `receive`."""
        self.reading = True
        self._loop.add_reader(self._socket, self.on_readable)

    def rest(self) -> None:
        """Stop watching the socket, so that TCP flow control stops the server."""
        self.reading = False
        self._loop.remove_reader(self._socket)

    def receive(self) -> tuple[list[bytes], bool]:
        """Return the frames that are available, up to a limit.

        Returns:
            The frames, and whether the socket is empty.

        Raises:
            WalagentError: the connection was lost, or the server ended the stream.
        """
        frames = list[bytes]()
        try:
            dry = False
            self._drain(frames)
            while not dry and not self.ended and len(frames) < _FRAMES:
                before = len(frames)
                self._pgconn.consume_input()
                self._drain(frames)
                # A short read means that the server is slower than the reader.  Decoding first is
                # cheaper than reading the few bytes that have arrived since.
                dry = len(frames) - before < _SHORT
        except Error as error:
            raise self._lost(error) from error
        return frames, dry or self.ended

    def _drain(self, frames: list[bytes]) -> None:
        """Take what libpq has buffered: one read of the socket returns many small frames."""
        get, append = self._pgconn.get_copy_data, frames.append
        for _ in range(_FRAMES - len(frames)):
            length, data = get(1)
            if length <= 0:
                self.ended = length < 0
                return
            append(data.tobytes())

    def farewell(self) -> WalagentError:
        """Return the reason why the server ended the stream."""
        try:
            result = self._pgconn.get_result()
            words = result.error_message.decode(errors="replace").strip() if result else ""
        except Error as error:
            return self._lost(error)
        if result is None or not words:
            return StreamLostError("the server ended the stream")
        return self._lost(error_from_result(result))

    def send(self, message: bytes) -> None:
        """Send a message now, or when the socket is writable.

        Raises:
            WalagentError: the connection was lost.
        """
        try:
            self._pgconn.put_copy_data(message)
            self._flush()
        except Error as error:
            raise self._lost(error) from error

    def send_end(self) -> None:
        """Send the end of the stream."""
        try:
            self._pgconn.put_copy_end()
            self._flush()
        except Error as error:
            raise self._lost(error) from error

    def _flush(self) -> None:
        if self._pgconn.flush():
            self._loop.add_writer(self._socket, self._flush_more)

    def _flush_more(self) -> None:
        try:
            if self._pgconn.flush():
                return
        except OperationalError:
            pass  # reading fails in the same way and reports it
        self._loop.remove_writer(self._socket)

    def close(self) -> None:
        """Stop watching the socket and close the connection at once."""
        self.reading = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._pgconn.finish()

    def _lost(self, error: Error) -> WalagentError:
        return refused(error, self._slot, streaming=True)
