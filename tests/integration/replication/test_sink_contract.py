"""What every sink promises.  A new one joins as a parameter of the fixture `sink` or `lossy`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Protocol

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, run_all, session, until, value
from tests.helpers.sinks import Disk, Journal
from tests.helpers.stream import (
    ScriptedStream,
    idle,
    inserted,
    intake,
    open_checkpoint,
    transaction,
)
from walagent.domain.attachment import Attachment
from walagent.domain.change import Begin, Commit, Item
from walagent.postgres.lsn import Lsn
from walagent.replication.fan_out import FanOut, Interrupted, Missed, Subscription
from walagent.replication.feed import Feed
from walagent.replication.sinks import Sink, Want

WAITS = """
select exists (select from pg_locks where relation = 'agent.run'::regclass and not granted)
"""


class Durable(Protocol):
    """A durable sink under test, and what it has kept in spite of everything."""

    on: Attachment  # rows of its table are the ones that the sink is given

    async def open(self) -> Sink:
        """Start it as a process does that knows nothing but what was durable; the last is dead."""
        ...

    async def kept(self) -> Sequence[object]:
        """The ids of the rows that it has durably, in order."""
        ...

    def waiting(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[object]]]:
        """Let `take` wait within the block; give what waits until it does."""
        ...


class IntakeUnderTest:
    """Intake: what it keeps are runs."""

    def __init__(
        self, conn: AsyncConnection, dsn: str, on: Attachment, ends: AsyncExitStack
    ) -> None:
        self.on = on
        self._conn, self._dsn, self._ends = conn, dsn, ends

    async def open(self) -> Sink:
        """With a connection of its own, which ends with it."""
        await self._ends.aclose()
        return await intake(await self._ends.enter_async_context(session(self._dsn)))

    async def kept(self) -> Sequence[object]:
        """By the order of their runs."""
        return list(map(int, await column(self._conn, "select key from agent.run order by id")))

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        """While somebody has the table of runs locked."""
        async with session(self._dsn) as other, other.transaction():
            await run_all(other, "lock table agent.run in exclusive mode")
            yield lambda: until(self._conn, WAITS)


class JournalUnderTest:
    """The tests' own, which tells whether what is asked here makes sense."""

    def __init__(self, on: Attachment) -> None:
        self.on = on
        self._disk = Disk(Lsn(1))
        self._now = Journal(self._disk, on.target.relation)

    async def open(self) -> Sink:
        """From what is on disk."""
        self._now = Journal(self._disk, self.on.target.relation)
        return self._now

    async def kept(self) -> Sequence[object]:
        """What is on disk."""
        return self._disk.rows

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        """While its gate is closed."""
        self._now.gate.clear()
        yield lambda: asyncio.sleep(0)
        self._now.gate.set()


@pytest.fixture(params=["intake", "journal"])
async def sink(
    request: pytest.FixtureRequest, conn: AsyncConnection, dsn: str
) -> AsyncIterator[Durable]:
    """Every durable sink."""
    await run_all(conn, DESK)
    await attach(conn, "ordering_key=[status]")
    await open_checkpoint(conn)
    on = Attachment.from_json(await value(conn, "select definition from agent.attachment"))
    async with AsyncExitStack() as ends:
        if request.param == "intake":
            yield IntakeUnderTest(conn, dsn, on, ends)
        else:
            yield JournalUnderTest(on)


def transactions(sink: Durable, *starts: int) -> list[list[Item]]:
    """Transactions of three rows each; the second ends where the third begins, and so on."""
    return [
        transaction(at, *(inserted(sink.on, {"id": at + n, "status": "new"}) for n in range(3)))
        for at in starts
    ]


def ids(*starts: int) -> list[int]:
    """The ids of the rows in them."""
    return [at + n for at in starts for n in range(3)]


async def feed(sinks: Sequence[Sink], items: Sequence[Item], size: int = 1) -> list[Lsn]:
    """Give items to sinks, so many at once; return what was confirmed."""
    stream = ScriptedStream()
    stream.batches.extend(list(items[n : n + size]) for n in range(0, len(items), size))
    feeding = Feed(stream, sinks)
    while stream.batches:
        await feeding.take_one()
    return stream.confirmed


def sent_from(durable: Lsn | None, log: Sequence[Sequence[Item]]) -> list[Item]:
    """What the server sends to a stream that starts there: whole transactions, by its own rule."""
    assert durable is not None
    begins = [(begin.commit_lsn, items) for items in log if isinstance(begin := items[0], Begin)]
    return [item for commit_lsn, items in begins if commit_lsn >= durable for item in items]


# Durable sinks.


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_rows_are_kept_in_the_order_of_their_commits(sink: Durable, size: int) -> None:
    """However the stream cuts its batches."""
    log = transactions(sink, 100, 110, 200, 300)
    items = [*log[0], *log[1], idle(150), *log[2], idle(250), *log[3], idle(400)]
    await feed([await sink.open()], items, size)
    assert await sink.kept() == ids(100, 110, 200, 300)


async def test_a_sink_names_its_tables_before_it_takes_and_after(sink: Durable) -> None:
    """The stream is opened for them: a sink that starts again needs the same ones."""
    made = await sink.open()
    before = dict(made.tables())
    assert before.keys() == {sink.on.target.relation}
    await feed([made], [item for items in transactions(sink, 100, 200) for item in items])
    assert dict(made.tables()) == before
    assert dict((await sink.open()).tables()) == before


async def test_what_is_durable_are_whole_transactions_and_all_of_them(sink: Durable) -> None:
    """After every single item: no row of an open one, and none missing before the position."""
    made, start = await sink.open(), Lsn(1)
    done: list[int] = []
    for items in transactions(sink, 100, 110, 200):
        for item in items:
            await made.take([item])
            if isinstance(item, Commit):
                done.append(int(item.commit_lsn))
            assert made.durable is not None
            assert await sink.kept() == ids(*done)
            assert made.durable == (Lsn(done[-1] + 10) if done else start)


async def test_a_restart_continues_from_what_was_durable(sink: Durable) -> None:
    """It dies after each item once; the server sends what it has not confirmed: each row once."""
    log: list[list[Item]] = []
    for start in range(0, 3000, 300):
        log += transactions(sink, start + 100, start + 110, start + 200)
        made = await sink.open()
        items = sent_from(made.durable, log)
        await feed([made], items[: len(items) - 1 - start // 300])
    made = await sink.open()
    await feed([made], sent_from(made.durable, log))
    starts = [start + at for start in range(0, 3000, 300) for at in (100, 110, 200)]
    assert await sink.kept() == ids(*starts)


async def test_a_transaction_is_kept_once_though_another_sink_needs_it_again(sink: Durable) -> None:
    """The stream starts where the slower of two ends, whichever that is."""
    log = transactions(sink, 100, 110, 200, 300)
    disk = Disk(Lsn(1))
    slow = Journal(disk, lazy=True)
    confirmed = await feed([await sink.open(), slow], sent_from(Lsn(1), log[:2]))
    assert confirmed == []
    slow.save()
    assert await feed([await sink.open(), slow], sent_from(Lsn(120), log[2:3])) == []
    made, again = await sink.open(), Journal(disk)  # 200 was not saved
    assert (made.durable, again.durable) == (210, 120)
    assert await feed([made, again], sent_from(again.durable, log)) == [210, 310]
    assert await sink.kept() == disk.rows == ids(100, 110, 200, 300)


@pytest.mark.parametrize("size", [1, 5])
async def test_taking_can_be_cancelled(sink: Durable, size: int) -> None:
    """While it waits, as a stream that ends does it: nothing of it is kept, and it goes on."""
    first, second = transactions(sink, 100, 200)
    made = await sink.open()
    await feed([made], first)
    async with sink.waiting() as waits:
        taking = asyncio.create_task(feed([made], second, size))
        await waits()
        assert not taking.done()
        taking.cancel()
        await asyncio.wait([taking])
        assert taking.cancelled()
    assert await sink.kept() == ids(100)
    made = await sink.open()
    assert made.durable == 110
    await feed([made], sent_from(made.durable, [first, second]))
    assert await sink.kept() == ids(100, 200)


async def test_an_idle_position_does_not_move_back(sink: Durable) -> None:
    """Nor does a transaction that comes again."""
    (items,) = transactions(sink, 100)
    made = await sink.open()
    await feed([made], [*items, idle(500), idle(400)])
    assert await sink.kept() == ids(100)
    assert made.durable is not None
    assert made.durable in {110, 500}
    after = made.durable
    await feed([made], [idle(300)])
    assert made.durable == after


# Lossy sinks.

LIMIT = 8
WATCHED = ("public", "watched")


class Lossy(Protocol):
    """A lossy sink under test, which holds LIMIT items that nobody fetches."""

    @property
    def sink(self) -> Sink:
        """As the feed has it."""
        ...

    async def received(self) -> list[Item | Missed | Interrupted]:
        """What has come to its end since the last call."""
        ...


class FanOutUnderTest:
    """The fan-out with one subscriber, who is slow."""

    def __init__(self, sink: FanOut, subscription: Subscription) -> None:
        self.sink, self._subscription = sink, subscription

    async def received(self) -> list[Item | Missed | Interrupted]:
        """What its subscriber finds."""
        found: list[Item | Missed | Interrupted] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(0):  # until it would have to wait
                while True:
                    found.append(await anext(self._subscription))
        return found


@pytest.fixture(params=["fan_out"])
async def lossy(request: pytest.FixtureRequest) -> AsyncIterator[Lossy]:
    """Every lossy sink."""
    assert request.param == "fan_out"
    fan_out = FanOut()
    with fan_out.subscribe({WATCHED: Want()}, limit=LIMIT) as subscription:
        yield FanOutUnderTest(fan_out, subscription)


def at_once(sink: Sink, items: Sequence[Item]) -> None:
    """Let a sink take without an event loop, where anything that waits would stop."""
    taking = sink.take(items)
    with pytest.raises(StopIteration):
        taking.send(None)  # pyright: ignore[reportAttributeAccessIssue] - a coroutine


async def test_a_lossy_sink_has_no_position(lossy: Lossy) -> None:
    """So it holds nothing back, also when it has lost something."""
    disk = Disk(Lsn(1))
    items = [item for at in (100, 200, 300) for item in transaction(at)]
    assert await feed([lossy.sink, Journal(disk)], items) == [110, 210, 310]
    assert lossy.sink.durable is None


async def test_a_lossy_sink_names_its_tables(lossy: Lossy) -> None:
    """Also after it has lost something, for what comes next."""
    assert lossy.sink.tables() == {WATCHED: Want()}
    for at in range(100, 2000, 100):
        at_once(lossy.sink, transaction(at))
    assert lossy.sink.tables() == {WATCHED: Want()}


async def test_a_lossy_sink_never_waits(lossy: Lossy) -> None:
    """However much it is given, and though nobody fetches any of it."""
    for at in range(100, 10_000, 100):
        at_once(lossy.sink, transaction(at))


async def test_what_does_not_fit_is_said_to_be_missed(lossy: Lossy) -> None:
    """Then whole transactions again, in order."""
    at_once(lossy.sink, [item for at in (100, 200) for item in transaction(at)])
    first = await lossy.received()
    assert first == [*transaction(100), *transaction(200)]
    for at in range(300, 1200, 100):
        at_once(lossy.sink, transaction(at))
    lost, *rest = await lossy.received()
    assert isinstance(lost, Missed)
    whole = [item for at in range(300, 1200, 100) for item in transaction(at)]
    assert lost.count + len(rest) == len(whole)
    assert rest == whole[lost.count :]
    assert not rest or isinstance(rest[0], Begin)
    at_once(lossy.sink, transaction(2000))
    assert (await lossy.received())[-2:] == transaction(2000)


async def test_a_lossy_sink_begins_with_a_whole_transaction(lossy: Lossy) -> None:
    """One that was under way when the stream came to it is left out."""
    at_once(lossy.sink, transaction(100)[1:])
    at_once(lossy.sink, transaction(200))
    assert await lossy.received() == transaction(200)
