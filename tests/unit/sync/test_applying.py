"""A large transaction is decoded in portions, which logs take or refuse as a whole."""

import asyncio
import json
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sync.build import ITEM, Row, item_table
from walagent.domain.change import UNCHANGED, Begin, Change, Column, Op, Relation
from walagent.postgres.lsn import Lsn
from walagent.sync.applying import Applier
from walagent.sync.definition import Definition
from walagent.sync.limits import EngineLimits
from walagent.sync.predicate import compile_where
from walagent.sync.query import Connecting
from walagent.sync.shape import Shape
from walagent.sync.shape_log import Offset
from walagent.sync.snapshot import Visible
from walagent.sync.transactions import Changes, RecentTransactions, Transaction
from walagent.sync.where import parse_where

BEGIN = Begin(7, Lsn(100), datetime(2026, 1, 1, tzinfo=UTC))
ON = Relation(
    7, "public", "item", tuple(Column(n, oid, "", in_key=n == "id") for n, oid in ITEM.items())
)
OTHER = replace(ON, oid=8, name="other")
TABLE = item_table()
VALUES = st.one_of(
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
    st.decimals(allow_nan=False),
    st.text(),
    st.just("\udcff"),  # a byte that is no UTF-8
    st.just(UNCHANGED),
)
ROWS = st.none() | st.dictionaries(st.sampled_from(list(ITEM)), VALUES)
CHANGES = st.lists(
    st.tuples(st.sampled_from(Op), st.sampled_from([ON, OTHER]), ROWS, ROWS, st.integers(0, 70_000))
)


def inserts(keys: Sequence[int], on: Relation = ON, text: str = "a") -> list[Change]:
    """Rows of a transaction."""
    rows: list[Row] = [{"id": n, "number": n % 3, "text": text, "flag": None} for n in keys]
    return [Change(Lsn(100), n, Op.INSERT, on, row, None, 7) for n, row in enumerate(rows)]


class Counted(Changes):
    """Changes that count the portions that are decoded."""

    decoded = 0

    def portions(self, begin: Begin) -> Iterator[Sequence[Change]]:
        """Yield them, as before."""
        for portion in super().portions(begin):
            self.decoded += 1
            yield portion


def transaction(
    changes: Sequence[Change], weight: int = 100, kept: Changes | None = None
) -> Transaction:
    """A transaction, whose changes arrive in pieces."""
    found = Transaction(BEGIN, Changes() if kept is None else kept)
    for start in range(0, len(changes), 100):
        piece = changes[start : start + 100]
        found.changes.add(piece, weight * len(piece))
    return found


def shape(where: str = "", limits: EngineLimits | None = None) -> Shape:
    """A shape of the table, without rows."""
    node = parse_where(where) if where else None
    predicate = None if node is None else compile_where(node, TABLE)
    return Shape(Definition("public", "item", node), TABLE, predicate, limits or EngineLimits())


def no_connection() -> Connecting:
    """All that is needed was sent."""
    raise AssertionError


async def apply(shapes: Sequence[Shape], what: Transaction) -> None:
    """Apply a transaction; what does not fit ends its shape."""
    await Applier(no_connection, lambda each: each.finish()).apply(shapes, what)


@given(CHANGES)
def test_changes_are_what_they_were(
    rows: list[tuple[Op, Relation, Row | None, Row | None, int]],
) -> None:
    """Also as bytes: values of each type, those that were not sent, and relations."""
    changes = [
        Change(Lsn(100), n, op, on, new, old, 7) for n, (op, on, new, old, _) in enumerate(rows)
    ]
    found = Changes()
    for change, (*_, weight) in zip(changes, rows, strict=True):
        found.add([change], weight)
    assert [each for portion in found.portions(BEGIN) for each in portion] == changes
    assert bool(found) is bool(changes)


async def test_a_transaction_of_many_portions_is_one_to_clients() -> None:
    """The last message alone says that it is, and each shape has its own rows in order."""
    changes = inserts(range(5_000))
    other = inserts(range(5_000), OTHER)
    mixed = [each for pair in zip(changes, other, strict=True) for each in pair]
    mixed = [replace(each, ordinal=n) for n, each in enumerate(mixed)]
    limits = EngineLimits(chunk_bytes=50_000)
    shapes = [shape(where, limits) for where in ("number = 1", "number = 2", "id = 4999")]
    what = transaction(mixed, kept=(kept := Counted()))
    await apply(shapes, what)
    assert kept.decoded > 5
    for each, wanted in zip(
        shapes, [range(1, 5000, 3), range(2, 5000, 3), range(4999, 5000)], strict=True
    ):
        messages, at, is_end = list[bytes](), Offset(0, 0), False
        while not is_end:
            some, at, is_end = each.log.after(at)
            messages += some
        found = [json.loads(each) for each in messages]
        assert [int(each["value"]["id"]) for each in found] == list(wanted)
        last = [each["headers"].get("last", False) for each in found]
        assert last == [False] * (len(found) - 1) + [True]
        places = [each["headers"]["op_position"] for each in found]
        assert places == sorted(set(places))
        assert at == Offset(100, places[-1] + 1)
        assert each.log.size == sum(map(len, messages))


async def test_a_log_that_is_full_ends_its_shape_before_the_rest_is_decoded() -> None:
    """And its memory is free; others go on, and a transaction that is in no log is not decoded."""
    what = transaction(inserts(range(20_000)), kept=(kept := Counted()))
    full = [shape(limits=EngineLimits(log_bytes=50_000)) for _ in range(2)]
    await apply(full, what)
    assert all(each.ended for each in full)
    assert all(each.size == 0 for each in full)
    assert kept.decoded == 1
    few, many = (shape(each, EngineLimits(log_bytes=50_000)) for each in ("id < 9", "id > 9"))
    await apply([few, many], what)
    assert (few.ended, many.ended) == (False, True)
    assert len(few.log.after(Offset(0, 0))[0]) == 9


async def test_shapes_end_where_all_have_no_room_together() -> None:
    """So many that the others fit."""
    shapes = [shape(f"id < {n}") for n in range(2_000, 2_005)]
    what = transaction(inserts(range(1_000)))
    await Applier(no_connection, lambda each: each.finish(), lambda size: size < 500_000).apply(
        shapes, what
    )
    assert [each.ended for each in shapes].count(True) == 3
    assert sum(each.log.size for each in shapes) < 500_000


async def test_a_key_that_was_null_ends_shapes_in_any_portion() -> None:
    """Nothing of the transaction is in the log."""
    changes = inserts(range(5_000))
    odd: Row = {"id": None, "number": 1, "text": "", "flag": None}
    one = shape()
    await apply([one], transaction([*changes, replace(changes[0], new=odd)]))
    assert one.ended
    assert one.log.last is None


async def test_other_work_goes_on_beside_a_large_transaction() -> None:
    """In between."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(count())
    await apply([shape("id > 5"), shape("number = 1")], transaction(inserts(range(20_000))))
    beside.cancel()
    assert turns > 10


def test_messages_and_changes_take_little_memory() -> None:
    """A hundred bytes more than what they say, however large the buffers of libraries are."""
    loop = asyncio.new_event_loop()
    tracemalloc.start()
    try:
        what = transaction(inserts(range(20_000)), weight=60)
        held = tracemalloc.get_traced_memory()[0]
        assert held < 20_000 * 150
        one = loop.run_until_complete(_applied(what))
        taken = tracemalloc.get_traced_memory()[0] - held
    finally:
        tracemalloc.stop()
        loop.close()
    assert taken < one.log.size + 20_000 * 100


async def _applied(what: Transaction) -> Shape:
    one = shape()
    await apply([one], what)
    return one


def test_what_waits_for_a_shape_has_a_limit() -> None:
    """It would not fit into its log either."""
    recent = RecentTransactions(1 << 20)
    first = transaction(inserts(range(10)))
    first.shaped = {("public", "item"): None}
    recent.keep(first)
    waiting = recent.of(("public", "item"), 3 * first.weight)
    assert (len(waiting), waiting.xids) == (1, {7})
    assert waiting.add(first)
    assert waiting.add(first)
    assert not waiting.add(first)
    assert waiting.take() is first
    assert len(waiting) == 3
    assert not recent.of(("public", "other"), 1)
    assert recent.unseen(Visible(5, 5, frozenset())) == {}
