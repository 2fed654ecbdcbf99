"""From one stream to several sinks, and what is confirmed."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.helpers.sinks import Disk, Journal
from tests.helpers.stream import ScriptedStream, idle, transaction
from walagent.domain.change import Change, Item, Op, Relation
from walagent.postgres.lsn import Lsn
from walagent.replication.fan_out import FanOut
from walagent.replication.feed import Feed
from walagent.replication.sinks import ResubscribeError, Table, Want

TABLE = Relation(1, "public", "t")
ONE, OTHER = ("public", "one"), ("public", "other")


def row(number: int) -> Change:
    """A row inserted."""
    return Change(Lsn(0), 0, Op.INSERT, TABLE, {"id": number}, None)


def stream_of(*batches: Sequence[Item]) -> ScriptedStream:
    """A stream that brings these batches."""
    stream = ScriptedStream()
    stream.batches.extend(map(list, batches))
    return stream


async def take_all(feed: Feed, stream: ScriptedStream) -> None:
    """Pass on everything that the stream brings."""
    while stream.batches:
        await feed.take_one()


async def test_the_least_position_of_durable_sinks_is_confirmed() -> None:
    """A slow one holds the slot back, and nothing else does."""
    fast, slow = Disk(Lsn(1)), Disk(Lsn(1))
    lazy = Journal(slow, lazy=True)
    batches = [transaction(at, row(at)) for at in (100, 200, 300)]
    stream = stream_of(*batches, [idle(400)])
    feed = Feed(stream, [Journal(fast), lazy, FanOut()])
    for _ in range(2):
        await feed.take_one()
    assert (fast.position, stream.confirmed) == (Lsn(210), [])
    lazy.save()
    await feed.take_one()
    assert (fast.position, stream.confirmed) == (Lsn(310), [210])
    lazy.save()
    await feed.take_one()
    assert stream.confirmed == [210, 310]


async def test_a_position_is_confirmed_once() -> None:
    """Nothing is said to the server that it has been told."""
    stream = stream_of(transaction(100), transaction(200)[:2], transaction(200)[2:])
    await take_all(Feed(stream, [Journal(Disk(Lsn(1)))]), stream)
    assert stream.confirmed == [110, 210]


async def test_where_no_sink_is_durable_everything_is_confirmed_as_it_is_passed_on() -> None:
    """Whole transactions: the server sends the rest of one again."""
    begin, commit = transaction(200)
    stream = stream_of(transaction(100), [idle(150), begin], [commit], [idle(300)])
    await take_all(Feed(stream, [FanOut()]), stream)
    assert stream.confirmed == [110, 150, 210, 300]


async def test_a_batch_is_passed_on_as_it_is() -> None:
    """No sink costs a copy, nor a call for each item."""
    taken: list[Sequence[Item]] = []

    class Keeper(FanOut):
        async def take(self, items: Sequence[Item]) -> None:
            taken.append(items)

    batch = [*transaction(100, row(1)), *transaction(200, row(2))]
    stream = ScriptedStream()
    stream.batches.append(batch)
    await Feed(stream, [Keeper(), Keeper()]).take_one()
    assert [items is batch for items in taken] == [True, True]


@pytest.mark.parametrize("ahead", [1, 110, 150, 210, 310])
async def test_a_sink_that_is_ahead_is_not_given_what_it_has(ahead: int) -> None:
    """The stream starts where the other one ends, and the rule is that of the server."""
    first = Disk(Lsn(ahead))
    behind, before = Journal(Disk(Lsn(1))), Journal(first)
    items = [item for at in (100, 110, 200, 300) for item in transaction(at, row(at))]
    stream = stream_of(*([item] for item in items))
    await take_all(Feed(stream, [behind, before]), stream)
    assert behind.seen == [100, 110, 200, 300]
    assert before.seen == [at for at in (100, 110, 200, 300) if at >= ahead]
    assert first.rows == before.seen
    assert stream.confirmed[-1] == 310


async def test_a_sink_that_waits_keeps_others_from_being_confirmed_and_read() -> None:
    """The stream sees that nothing is taken, and gives the slot up after its time."""
    done = asyncio.Event()
    stream = ScriptedStream(lambda lsn: done.set() if lsn == 210 else None)
    stream.batches.extend([transaction(100, row(1)), transaction(200, row(2))])
    waiting, disk = Journal(Disk(Lsn(1))), Disk(Lsn(1))
    waiting.gate.clear()
    feeding = asyncio.create_task(Feed(stream, [waiting, Journal(disk)]).run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert (len(stream.batches), disk.rows, stream.confirmed) == (1, [], [])
    waiting.gate.set()
    async with asyncio.timeout(5):
        await done.wait()
    feeding.cancel()
    await asyncio.wait([feeding])


async def test_a_stream_is_opened_again_for_tables_that_it_does_not_carry() -> None:
    """One that is asked for while it is read: from then on, for a sink that needs no more."""
    watching = FanOut()
    carried: frozenset[Table] = frozenset([ONE])
    stream = stream_of([idle(100)], [idle(200)])
    feed = Feed(stream, [watching, Journal(Disk(Lsn(1)), ONE)], carried)
    await feed.take_one()
    with watching.subscribe({OTHER: Want()}):
        with pytest.raises(ResubscribeError) as caught:
            await feed.take_one()
        assert caught.value.tables == {ONE, OTHER}
    assert stream.confirmed == [100, 200]


async def test_publications_say_as_the_stream_goes_what_it_carries() -> None:
    """Then no table that is asked for ends it."""
    watching, stream = FanOut(), stream_of([idle(100)])
    with watching.subscribe({OTHER: Want()}):
        await Feed(stream, [watching]).take_one()
    assert stream.confirmed == [100]


async def test_a_sink_that_fails_ends_the_feed_before_anything_is_confirmed() -> None:
    """What it did not take is sent again to the next stream."""

    class Broken(Journal):
        async def take(self, items: Sequence[Item]) -> None:
            raise OSError(len(items))

    disk, stream = Disk(Lsn(1)), stream_of(transaction(100, row(1)))
    with pytest.raises(OSError, match="3"):
        await Feed(stream, [Journal(disk), Broken(Disk(Lsn(1)))]).run()
    assert (disk.rows, stream.confirmed) == ([1], [])
