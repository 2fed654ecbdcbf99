"""Reading beside the consumer."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from walagent.domain.change import Begin, Change, Commit, Item, Op, Piece, Relation
from walagent.postgres.lsn import Lsn
from walagent.replication.fan_out import FanOut, Interrupted, Missed, Subscription

TABLE = Relation(1, "public", "t")


def transaction(lsn: int, size: int = 1) -> list[Item]:
    """A transaction of *size* changes."""
    rows = [Change(Lsn(lsn), n, Op.INSERT, TABLE, {}, None) for n in range(size)]
    begin = Begin(1, Lsn(lsn), datetime(2026, 1, 1, tzinfo=UTC))
    return [begin, Piece(rows), Commit(Lsn(lsn), Lsn(lsn + 1))]


async def take(subscription: Subscription, count: int) -> list[Item | Missed | Interrupted]:
    """The next *count* items."""
    return [await anext(subscription) for _ in range(count)]


async def test_every_reader_gets_every_item() -> None:
    """In order, each at its own pace."""
    fan_out = FanOut()
    with fan_out.subscribe() as one, fan_out.subscribe() as other:
        await fan_out.take(transaction(10))
        assert await take(one, 3) == transaction(10)
        await fan_out.take(transaction(20))
        assert await take(one, 3) == transaction(20)
        assert await take(other, 6) == transaction(10) + transaction(20)


async def test_a_reader_that_lags_learns_what_it_missed_and_gets_a_whole_transaction() -> None:
    """Nobody waits for it, and it never sees half a transaction without being told."""
    fan_out = FanOut()
    with fan_out.subscribe(limit=7) as slow:
        for lsn in (10, 20, 30):
            await fan_out.take(transaction(lsn))
        first = await anext(slow)
        assert first == Missed(9)
        await fan_out.take(transaction(40))
        assert await take(slow, 3) == transaction(40)


async def test_a_reader_that_lags_keeps_no_large_rows() -> None:
    """Few of them are as much as many small ones; a single one is taken, however large it is."""
    fan_out, size = FanOut(), 20 << 20
    begin, piece, commit = transaction(10)
    assert isinstance(piece, Piece)
    large = replace(piece, weight=2 * size)
    with fan_out.subscribe() as slow:
        await fan_out.take([begin, large, commit])
        assert await take(slow, 3) == [begin, large, commit]
        half = replace(piece, weight=size)
        await fan_out.take([begin, half, half, commit])
        assert await anext(slow) == Missed(4)
        await fan_out.take(transaction(40))
        assert await take(slow, 3) == transaction(40)


async def test_a_reader_starts_with_the_next_transaction() -> None:
    """What was under way when it came is not its business, and no loss."""
    fan_out = FanOut()
    with fan_out.subscribe() as late:
        await fan_out.take(transaction(10)[1:])
        await fan_out.take(transaction(20))
        assert await take(late, 3) == transaction(20)


async def test_a_reader_waits_for_what_is_to_come() -> None:
    """Without being asked again and again."""
    fan_out = FanOut()
    with fan_out.subscribe() as subscription:
        waiting = asyncio.create_task(take(subscription, 3))
        await asyncio.sleep(0)
        assert not waiting.done()
        await fan_out.take(transaction(10))
        assert await waiting == transaction(10)


async def test_a_transaction_larger_than_the_queue_is_missed() -> None:
    """Memory stays bounded whatever comes."""
    fan_out = FanOut()
    with fan_out.subscribe(limit=10) as small:
        await fan_out.take(transaction(10, size=50))
        await fan_out.take(transaction(20))
        assert await take(small, 4) == [Missed(52), *transaction(20)]


async def test_an_interruption_takes_the_place_of_what_was_queued() -> None:
    """What follows begins with a Begin; one of some tables stands among the items."""
    fan_out = FanOut()
    with fan_out.subscribe() as one:
        begin, piece, commit = transaction(1)
        await fan_out.take([begin, piece])
        fan_out.interrupt()
        await fan_out.take([commit, *transaction(3)])
        assert await take(one, 4) == [Interrupted(), *transaction(3)]
        await fan_out.take(transaction(5))
        fan_out.interrupt(frozenset({("public", "t")}))
        await fan_out.take(transaction(7))
        gap = Interrupted(frozenset({("public", "t")}))
        assert await take(one, 7) == [*transaction(5), gap, *transaction(7)]
