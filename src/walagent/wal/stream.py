"""The replication stream: yields items and sends confirmed positions.

Three activities run independently: the socket is read until it is empty whenever it is readable,
the consumer takes what is buffered, and a timer sends status updates.  The buffer between socket
and consumer is bounded; while it is full, the socket is not read, and if that lasts too long, the
connection is closed: an unread socket can block server checkpoints.

Reading and confirming are separate.  The server keeps everything until `confirm`, so a crash
between the two repeats changes but never loses one.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Never, TypeVar

from psycopg import AsyncConnection

from walagent.base import faults
from walagent.base.concurrency import first_of
from walagent.domain.change import Item, Relation
from walagent.errors import StreamLostError, WalagentError
from walagent.postgres.lsn import Lsn
from walagent.wal.catalog import read_catalog
from walagent.wal.connection import connect_replication, start_replication
from walagent.wal.deadman import Deadman
from walagent.wal.feedback import Feedback, Pulse
from walagent.wal.options import StreamOptions
from walagent.wal.protocol import status_update
from walagent.wal.transactions import PgoutputTransactions, Transactions
from walagent.wal.transport import Transport
from walagent.wal.wal2json import Wal2jsonTransactions
from walagent.wal.wire import Wire

_BUFFER: Final = (
    1 << 18
)  # bytes of decoded frames that were not taken: about 2,000 small rows, 2.5 MB
_PROMPT: Final = 0.05  # seconds; confirmations within it share one status update
_GOODBYE: Final = 1.0  # seconds for ending the stream

T = TypeVar("T")


@asynccontextmanager
async def open_stream(
    dsn: str,
    options: StreamOptions,
    *,
    wanted: Callable[[Relation], bool] = lambda _: True,
) -> AsyncGenerator["ReplicationStream", None]:
    """Connect, stream from `options.start`, and end the stream when the block ends.

    The role of *dsn* needs REPLICATION.  Only rows of *wanted* relations are decoded (see
    `PgoutputTransactions`).

    Raises:
        StreamLostError: the server cannot be reached; retry.
        SlotBusyError: another reader has the slot.
        GapError: the slot, or the WAL that it needs, no longer exists.
        PreconditionError: the server or the role is not configured for replication.
    """
    conn = await connect_replication(
        dsn,
        application_name=options.application_name,
        sender_timeout=options.sender_timeout,
        stall_timeout=options.stall_timeout,
    )
    try:
        transactions = await prepare_transactions(conn, options, wanted)
        transport = await start_replication(conn, options)
        stream = ReplicationStream(transport, options, transactions)
        try:
            yield stream
        finally:
            await stream.close()
    finally:
        await conn.close()


async def prepare_transactions(
    conn: AsyncConnection, options: StreamOptions, wanted: Callable[[Relation], bool]
) -> Transactions:
    """Create the decoder of the plugin, on a connection that does not stream yet.

    Raises:
        PreconditionError: the plugin's output cannot be decoded.
        WalagentError: the connection was lost, or the role cannot read the catalog.
    """
    start, prefixes = options.start, options.prefixes
    if options.plugin == "pgoutput":
        return PgoutputTransactions(wanted, start=start, prefixes=prefixes)
    catalog = await read_catalog(conn, options.tables)
    return Wal2jsonTransactions(wanted, start=start, prefixes=prefixes, catalog=catalog)


class ReplicationStream:
    """Items of transactions in commit order, for one consumer.

    The consumer calls `next_batch`, which returns all that are buffered, or iterates.
    """

    def __init__(
        self,
        transport: Transport,
        options: StreamOptions,
        transactions: Transactions,
    ) -> None:
        """Take ownership of *transport* within the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._transactions = transactions
        self._buffer: list[Item] = []
        self._taken = 0  # `transactions.weight` when the buffer was last emptied
        self._pending: Iterator[Item] = iter(())  # decoded only as far as the buffer had capacity
        self._dry = False
        self._error: BaseException | None = None
        self._arrival = asyncio.Event()
        self._ended = asyncio.Event()
        now = time.monotonic()
        self._feedback = Feedback(
            now, silence=options.sender_timeout / 2 or options.tick, stall=options.stall_timeout
        )
        self._status_at = now  # when the last status was sent
        self._status_soon: asyncio.TimerHandle | None = None
        self._tick = options.tick
        self._stall = options.stall_timeout
        self._timer = self._loop.call_later(self._tick, self._on_time)
        self._wire = Wire(transport, options.slot, self._on_readable)
        self._wire.start()
        self._deadman = Deadman(transport.fd, options.stall_timeout)
        self._loop.call_soon(self._read)

    # Called by the consumer.

    async def next_batch(self) -> list[Item]:
        """Wait until there are items, and return all of them.

        Raises:
            StreamLostError: the connection was lost; open a new stream from the checkpoint.
            DecodeError: a message of the server cannot be decoded.
            WalagentError: the server ended the stream for another reason.
            Exception: raised by `wanted`.
        """
        while not self._buffer and self._error is None:
            self._arrival.clear()
            await self._arrival.wait()
        if self._error is not None:
            raise self._error
        batch, self._buffer = self._buffer, []
        self._taken = self._transactions.weight
        if not self._wire.reading:
            self._feedback.resume(time.monotonic())
            self._wire.start()
            self._loop.call_soon(self._read)
        return batch

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yield the items one by one; raises the same errors as `next_batch`."""
        while True:
            for item in await self.next_batch():
                yield item

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* while the stream lives; if it ends, cancel *work* and raise the reason.

        A consumer that waits in a statement would not notice the end and would never return.
        """
        return await first_of(work=work, stream=self._end())

    async def _end(self) -> Never:
        """Wait for the end of the stream, and raise its reason."""
        await self._ended.wait()
        raise self._error or AssertionError("a stream ends with an error")

    def confirm(self, lsn: Lsn) -> None:
        """Mark everything up to *lsn* as durable.

        Never moves backwards, and never beyond what was received: the server would skip the changes
        between.  It is sent within 50 ms.
        """
        new = self._feedback.confirm(lsn, self.received)
        if new and self._status_soon is None and self._error is None:
            wait = max(0.0, self._status_at + _PROMPT - time.monotonic())
            self._status_soon = self._loop.call_later(wait, self._send_status)

    @property
    def received(self) -> Lsn:
        """Return the position up to which everything was read."""
        return self._transactions.received

    @property
    def confirmed(self) -> Lsn:
        """Return the position up to which everything is confirmed."""
        return self._feedback.flushed

    async def close(self) -> None:
        """Send the last position and end the stream; takes about 1 s at most, never raises."""
        if self._error is not None:
            return
        self._stop_timers()
        try:
            with suppress(WalagentError, TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await self._say_goodbye()
        finally:
            self._fail(StreamLostError("the stream is closed"))

    # Called by the event loop.

    def _on_readable(self) -> None:
        self._feedback.received(time.monotonic())
        self._read()

    def _read(self) -> None:
        """Move received frames from the socket to the buffer, up to its capacity."""
        if self._error is not None or not self._wire.reading:
            return
        try:
            if self._has_room():
                frames, self._dry = self._wire.receive()
                faults.hit("frame.received")
                self._pending = self._transactions.feed(frames)
                self._has_room()
        except BaseException as error:  # noqa: BLE001 - the event loop would log it and continue
            self._fail(error)
            return
        if self._wire.ended:
            self._fail(self._wire.farewell())
            return
        if self._transactions.take_request():
            self._send_status()
        if self._wire.reading and not self._dry:
            self._loop.call_soon(self._read)

    def _has_room(self) -> bool:
        """Move decoded items to the buffer, and suspend reading when it is full."""
        start, full = len(self._buffer), False
        for item in self._pending:
            self._buffer.append(item)
            if full := self._transactions.weight - self._taken >= _BUFFER:
                self._wire.rest()
                self._feedback.rest(time.monotonic())
                break
        if len(self._buffer) > start:
            self._arrival.set()
        return not full

    def _on_time(self) -> None:
        """Send a status update, whatever the consumer does."""
        self._timer = self._loop.call_later(self._tick, self._on_time)
        self._deadman.alive()
        match self._feedback.pulse(time.monotonic()):
            case Pulse.STATUS:
                self._send_status()
            case Pulse.PROBE:
                self._send_status(reply=True)
            case Pulse.LOST:
                self._fail(StreamLostError("no response from the server to a status request"))
            case Pulse.STALLED:
                self._fail(
                    StreamLostError(
                        f"no progress for {self._stall:g} s; released the slot so that server"
                        " checkpoints can proceed"
                    )
                )

    def _send_status(self, *, reply: bool = False) -> None:
        if self._status_soon is not None:
            self._status_soon.cancel()
            self._status_soon = None
        if self._error is not None:
            return
        self._status_at = time.monotonic()
        flushed = self._feedback.take_flushed()
        received = max(flushed, self.received)
        message = status_update(received, flushed, flushed, time.time(), reply=reply)
        try:
            self._wire.send(message)
        except WalagentError as error:
            self._fail(error)

    async def _say_goodbye(self) -> None:
        self._send_status()
        self._wire.send_end()
        self._wire.rest()
        readable = asyncio.Event()
        self._wire.on_readable = readable.set
        self._wire.start()
        self._wire.receive()
        while not self._wire.ended:  # frames in flight are read and discarded
            await readable.wait()
            readable.clear()
            self._wire.receive()

    def _stop_timers(self) -> None:
        self._timer.cancel()
        if self._status_soon is not None:
            self._status_soon.cancel()

    def _fail(self, error: BaseException) -> None:
        """End everything at once; the server can end its side when this returns."""
        self._error = error
        self._arrival.set()
        self._ended.set()
        self._stop_timers()
        self._deadman.stop()
        self._wire.close()
        self._transactions.close()
        self._buffer.clear()
