"""The replication stream: items come out, our position goes back.

Three things go on beside each other, none waiting for another: the socket is read until it is
empty whenever it has something, the consumer takes what is there, and a timer tells the server
where we are.  Between the first two stands a bounded buffer; while it is full the socket is not
read, and when that lasts too long the connection is given up: an unread socket can hold up the
server's checkpoints.

Reading and confirming are two acts.  What was read is not confirmed; only `confirm` lets the
server forget it.  So a crash between the two costs a repetition, never a change.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Never, TypeVar

from psycopg import AsyncConnection

from walagent import faults
from walagent.change import Item, Relation
from walagent.concurrency import first_of
from walagent.errors import StreamLostError, WalagentError
from walagent.lsn import Lsn
from walagent.wal.catalog import read_catalog
from walagent.wal.connection import connect_replication, start_replication
from walagent.wal.deadman import Deadman
from walagent.wal.feedback import Feedback, Pulse
from walagent.wal.options import StreamOptions
from walagent.wal.protocol import status_update
from walagent.wal.transactions import PgoutputTransactions, Transactions
from walagent.wal.wal2json import Wal2jsonTransactions
from walagent.wal.wire import Wire

_BUFFER: Final = 1 << 19  # bytes of frames decoded and not taken: some 4,000 small rows, 5 MB
_PROMPT: Final = 0.05  # seconds in which confirmations are told as one
_GOODBYE: Final = 1.0  # seconds that ending the stream may take

T = TypeVar("T")


@asynccontextmanager
async def open_stream(
    dsn: str,
    options: StreamOptions,
    *,
    wanted: Callable[[Relation], bool] = lambda _: True,
) -> AsyncGenerator["ReplicationStream", None]:
    """Connect, start streaming at `options.start`, and end the stream at the end.

    The login of *dsn* needs REPLICATION.  Only the rows of *wanted* relations are decoded (see
    `PgoutputTransactions`).

    Raises:
        StreamLostError: the server cannot be reached; try again.
        SlotBusyError: another reader has the slot.
        GapError: the slot, or the WAL it needs, is gone.
        PreconditionError: the server or the role is not set up for us.
    """
    conn = await connect_replication(
        dsn,
        application_name=options.application_name,
        sender_timeout=options.sender_timeout,
        stall_timeout=options.stall_timeout,
    )
    try:
        transactions = await prepare_transactions(conn, options, wanted)
        await start_replication(conn, options)
        stream = ReplicationStream(conn, options, transactions)
        try:
            yield stream
        finally:
            await stream.close()
    finally:
        await conn.close()


async def prepare_transactions(
    conn: AsyncConnection, options: StreamOptions, wanted: Callable[[Relation], bool]
) -> Transactions:
    """Get ready for what the plug-in sends, on a connection that does not stream yet.

    Raises:
        PreconditionError: it writes what we cannot read.
        WalagentError: the connection broke, or the role may not look at the catalog.
    """
    start, prefixes = options.start, options.prefixes
    if options.plugin == "pgoutput":
        return PgoutputTransactions(wanted, start=start, prefixes=prefixes)
    catalog = await read_catalog(conn, options.tables)
    return Wal2jsonTransactions(wanted, start=start, prefixes=prefixes, catalog=catalog)


class ReplicationStream:
    """Items of transactions, in the order of their commits, for one consumer.

    It takes them with `next_batch`, all that are there at once, or by iterating.
    """

    def __init__(
        self,
        conn: AsyncConnection,
        options: StreamOptions,
        transactions: Transactions,
    ) -> None:
        """Take over *conn*, which streams already, within the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._transactions = transactions
        self._buffer: list[Item] = []
        self._taken = 0  # what `transactions.weight` was when the buffer was last emptied
        self._pending: Iterator[Item] = iter(())  # decoded as far as the buffer had room
        self._dry = False
        self._error: BaseException | None = None
        self._arrival = asyncio.Event()
        self._ended = asyncio.Event()
        now = time.monotonic()
        self._feedback = Feedback(
            now, silence=options.sender_timeout / 2 or options.tick, stall=options.stall_timeout
        )
        self._status_at = now  # when the last status went out
        self._status_soon: asyncio.TimerHandle | None = None
        self._tick = options.tick
        self._stall = options.stall_timeout
        self._timer = self._loop.call_later(self._tick, self._on_time)
        self._wire = Wire(conn.pgconn, options.slot, self._on_readable)
        self._wire.start()
        self._deadman = Deadman(conn.pgconn.socket, options.stall_timeout)
        self._loop.call_soon(self._read)

    # What the consumer does.

    async def next_batch(self) -> list[Item]:
        """Wait until there are items, and take all of them.

        Raises:
            StreamLostError: the connection is gone; open a new stream from the checkpoint.
            DecodeError: the server sent what cannot be read.
            WalagentError: what else made the server end the stream.
            Exception: what `wanted` raised.
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
        """Yield the items one by one; raises what `next_batch` raises."""
        while True:
            for item in await self.next_batch():
                yield item

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* while the stream stands; then raise what ended it, and cancel *work*.

        A consumer that hangs in a statement would not hear of the end, and never come back.
        """
        return await first_of(work=work, stream=self._end())

    async def _end(self) -> Never:
        """Wait for the end of the stream, and raise what ended it."""
        await self._ended.wait()
        raise self._error or AssertionError("a stream ends with an error")

    def confirm(self, lsn: Lsn) -> None:
        """Say that everything up to *lsn* is committed on our side.

        Never moves backwards, and never beyond what was received: the server would believe it
        and skip what lies between.  It is told within moments.
        """
        new = self._feedback.confirm(lsn, self.received)
        if new and self._status_soon is None and self._error is None:
            wait = max(0.0, self._status_at + _PROMPT - time.monotonic())
            self._status_soon = self._loop.call_later(wait, self._send_status)

    @property
    def drained(self) -> bool:
        """Whether the consumer has taken all that the server has sent."""
        return self._dry and not self._buffer

    @property
    def received(self) -> Lsn:
        """Up to where everything has been read."""
        return self._transactions.received

    @property
    def confirmed(self) -> Lsn:
        """Up to where everything is confirmed."""
        return self._feedback.flushed

    async def close(self) -> None:
        """Send the last position and end the stream; never waits long, never raises."""
        if self._error is not None:
            return
        self._stop_timers()
        try:
            with suppress(WalagentError, TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await self._say_goodbye()
        finally:
            self._fail(StreamLostError("the stream is closed"))

    # What the event loop calls.

    def _on_readable(self) -> None:
        self._feedback.heard(time.monotonic())
        self._read()

    def _read(self) -> None:
        """Move what has come from the socket to the buffer, as far as there is room."""
        if self._error is not None or not self._wire.reading:
            return
        try:
            if self._has_room():
                frames, self._dry = self._wire.receive()
                faults.hit("frame.received")
                self._pending = self._transactions.feed(frames)
                self._has_room()
        except BaseException as error:  # noqa: BLE001 - the event loop would log it and go on
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
        """Move decoded items to the buffer, and rest when it is full."""
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
        """Tell the server where we are, whatever the consumer does."""
        self._timer = self._loop.call_later(self._tick, self._on_time)
        self._deadman.alive()
        match self._feedback.pulse(time.monotonic()):
            case Pulse.STATUS:
                self._send_status()
            case Pulse.PROBE:
                self._send_status(reply=True)
            case Pulse.LOST:
                self._fail(StreamLostError("the server does not answer any more"))
            case Pulse.STALLED:
                self._fail(
                    StreamLostError(
                        f"nothing was ingested for {self._stall:g} s: let go of the slot, for the"
                        " sake of the server's checkpoints"
                    )
                )

    def _send_status(self, *, reply: bool = False) -> None:
        if self._status_soon is not None:
            self._status_soon.cancel()
            self._status_soon = None
        if self._error is not None:
            return
        self._status_at = time.monotonic()
        flushed = self._feedback.tell()
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
        while not self._wire.ended:  # what was on its way is read and left
            await readable.wait()
            readable.clear()
            self._wire.receive()

    def _stop_timers(self) -> None:
        self._timer.cancel()
        if self._status_soon is not None:
            self._status_soon.cancel()

    def _fail(self, error: BaseException) -> None:
        """End everything at once; the server is free of us when this returns."""
        self._error = error
        self._arrival.set()
        self._ended.set()
        self._stop_timers()
        self._deadman.stop()
        self._wire.close()
        self._transactions.close()
        self._buffer.clear()
