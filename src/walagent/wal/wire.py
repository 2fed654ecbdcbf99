"""Read frames from the socket of a streaming connection and send messages, without waiting.

Every call returns at once; the owner of the event loop decides when to call.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from psycopg import Error

from walagent.errors import StreamLostError, WalagentError
from walagent.wal.refusals import refused
from walagent.wal.transport import Transport

# The most frames per call, so that the event loop runs other tasks every few milliseconds.
# The transport bounds their bytes: it holds one read, or one larger message.
_FRAMES: Final = 1000
_SHORT: Final = 50


class Wire:
    """Frames of a connection in COPY mode.

    Args:
        on_readable: called when data has arrived, while reading is on.
    """

    def __init__(self, transport: Transport, slot: str, on_readable: Callable[[], None]) -> None:
        self._transport = transport
        self._slot = slot
        self.on_readable = on_readable
        self._loop = asyncio.get_running_loop()
        self._socket = transport.fd
        self.reading = False
        self.ended = False  # the server has ended the stream

    def start(self) -> None:
        """Watch the socket.  Data that was buffered does not trigger it: also call `receive`."""
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
            self.ended = self._transport.drain(frames, _FRAMES)
            while not dry and not self.ended and len(frames) < _FRAMES:
                before = len(frames)
                self._transport.fill()
                self.ended = self._transport.drain(frames, _FRAMES)
                # A short read means that the server is slower than the reader.  Decoding first is
                # cheaper than reading the few bytes that have arrived since.
                dry = len(frames) - before < _SHORT
        except Error as error:
            raise self._lost(error) from error
        return frames, dry or self.ended

    def farewell(self) -> WalagentError:
        """Return the reason why the server ended the stream."""
        try:
            said = self._transport.farewell()
        except Error as error:
            return self._lost(error)
        return self._lost(said) if said else StreamLostError("the server ended the stream")

    def send(self, message: bytes) -> None:
        """Send a message now, or when the socket is writable.

        Raises:
            WalagentError: the connection was lost.
        """
        try:
            self._transport.put(message)
            self._flush()
        except Error as error:
            raise self._lost(error) from error

    def send_end(self) -> None:
        """Send the end of the stream."""
        try:
            self._transport.put_end()
            self._flush()
        except Error as error:
            raise self._lost(error) from error

    def _flush(self) -> None:
        if self._transport.flush():
            self._loop.add_writer(self._socket, self._flush_more)

    def _flush_more(self) -> None:
        try:
            if self._transport.flush():
                return
        except Error:
            pass  # reading fails in the same way and reports it
        self._loop.remove_writer(self._socket)

    def close(self) -> None:
        """Stop watching the socket and close the connection at once."""
        self.reading = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._transport.close()

    def _lost(self, error: Error) -> WalagentError:
        return refused(error, self._slot, streaming=True)
