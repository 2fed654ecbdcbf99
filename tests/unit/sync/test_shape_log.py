"""The log of a shape, read from any offset in chunks of any size."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.sync.shape_log import INFINITE, Offset, ShapeLog, parse_offset

OFFSETS = st.builds(
    Offset, st.integers(0, 2**64 - 1), st.integers(0, 10**18 - 1) | st.just(INFINITE)
)
SIZES = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), max_size=8)


def append(log: ShapeLog, lsn: int, messages: Sequence[bytes]) -> bool:
    """Append a transaction, with its messages at 0, 2, …; return whether it fitted."""
    entry = log.entry()
    fits = all(entry.add(2 * number, message) for number, message in enumerate(messages))
    if fits:
        log.append(lsn, entry)
    return fits


def logged(sizes: list[list[int]], chunk: int) -> tuple[ShapeLog, list[tuple[Offset, bytes]]]:
    """A log with messages of these sizes by transaction, and each with the place after it."""
    log, every = ShapeLog(1 << 20, chunk), list[tuple[Offset, bytes]]()
    for n, each in enumerate(sizes, start=1):
        messages = [bytes([65 + n]) * size for size in each]
        assert append(log, 10 * n, messages)
        every += [(Offset(10 * n, 2 * at + 1), message) for at, message in enumerate(messages)]
    return log, every


@given(SIZES, st.integers(0, 90), st.integers(1, 30))
def test_all_that_is_after_an_offset_is_read_in_order(
    sizes: list[list[int]], lsn: int, chunk: int
) -> None:
    """No answer is larger than a chunk and the part that fills it; together they are all."""
    log, every = logged(sizes, chunk)
    at, found, is_end = Offset(lsn, 0), list[bytes](), False
    wanted = [message for end, message in every if end > at]
    assert log.has_after(at) == bool(wanted)
    while not is_end:
        some, end, is_end = log.after(at)
        assert some == [message for its, message in every if at < its <= end]
        assert some or is_end
        assert sum(map(len, some)) < 2 * chunk + max(map(len, some), default=0)
        at, found = end, found + some
    assert found == wanted
    assert not log.has_after(at)


@given(SIZES, st.integers(1, 30), st.data())
def test_a_client_goes_on_within_a_transaction(
    sizes: list[list[int]], chunk: int, data: st.DataObject
) -> None:
    """From each offset that an answer can end with."""
    log, every = logged(sizes, chunk)
    at, ends, is_end = Offset(0, 0), [Offset(0, 0)], False
    while not is_end:
        _, at, is_end = log.after(at)
        ends.append(at)
    start = data.draw(st.sampled_from(ends))
    at, found, is_end = start, list[bytes](), False
    while not is_end:
        some, at, is_end = log.after(at)
        found += some
    assert found == [message for end, message in every if end > start]


def test_what_does_not_fit_is_left_out_whole() -> None:
    """What is there can still be read."""
    log = ShapeLog(10)
    assert append(log, 1, [b"12345"])
    assert not append(log, 2, [b"1", b"23456"])
    assert (log.size, log.last) == (5, Offset(1, 1))
    assert append(log, 3, [b"12345"])
    assert log.after(Offset(0, 0)) == ([b"12345", b"12345"], Offset(3, 1), True)


@given(OFFSETS)
def test_an_offset_is_read_as_it_was_written(offset: Offset) -> None:
    """Its end of the snapshot, too."""
    assert parse_offset(str(offset)) == offset


@pytest.mark.parametrize(
    "text",
    ["", "1", "-1", "1_", "_1", "1_-1", "1_2_3", " 1_2", "1_2\n", "1_infinite", "٣_1", "1e3_0"],
)
def test_what_is_no_offset_is_none(text: str) -> None:
    """It comes from outside."""
    assert parse_offset(text) is None


def test_offsets_are_ordered_by_commit_and_then_by_place() -> None:
    """The end of the snapshot is after its chunks and before all transactions."""
    ordered = [
        Offset(0, 0),
        Offset(0, 3),
        Offset(0, INFINITE),
        Offset(5, 0),
        Offset(5, 11),
        Offset(40, 1),
    ]
    assert all(one < other for one, other in pairwise(ordered))
