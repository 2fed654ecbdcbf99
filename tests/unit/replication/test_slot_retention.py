"""What is done about the WAL that a slot keeps."""

import pytest

from walagent.replication.slot_retention import Backlog, Sign

MB = 1 << 20


def backlog(**limits: int | None) -> Backlog:
    """One with an alarm at 100 MB, and no limit unless it is given."""
    return Backlog(**{"alarm": 100 * MB, "limit": None, **limits}, patience=60)


def test_an_alarm_is_raised_once_and_cleared_once() -> None:
    """At the size itself there is none; what goes up and down around it makes no more."""
    watched = backlog()
    sizes = [90, 100, 101, 105, 95, 101, 81, 79, 99, 101]
    signs = [watched.look(size * MB, 0, 0.0) for size in sizes]
    assert [set(sign) for sign in signs] == [
        *(set(), set(), {Sign.RAISED}, set(), set(), set(), set()),
        *({Sign.CLEARED}, set(), {Sign.RAISED}),
    ]
    assert watched.alarming


def test_without_sizes_nothing_is_ever_said() -> None:
    """However much is kept, and for however long."""
    watched = backlog(alarm=None)
    assert not any(watched.look(10**15, 10**15, 100.0 * n) for n in range(100))


def test_a_reader_that_comes_no_closer_is_hopeless_after_a_while() -> None:
    """Beyond the limit, and only as long as it stays there."""
    watched = backlog(alarm=None, limit=100 * MB)
    assert not watched.look(101 * MB, 101 * MB, 0.0)
    assert not watched.look(150 * MB, 150 * MB, 59.0)
    assert watched.look(160 * MB, 160 * MB, 60.0) == {Sign.HOPELESS}
    assert not watched.look(100 * MB, 100 * MB, 61.0)
    assert not watched.look(200 * MB, 200 * MB, 62.0)


def test_a_reader_that_catches_up_is_given_its_time() -> None:
    """As long as it comes closer now and then: after a long absence there is much to read."""
    watched = backlog(alarm=None, limit=100 * MB)
    for minutes in range(50):
        assert not watched.look((900 - minutes) * MB, (900 - minutes) * MB, 59.0 * minutes)
    assert watched.look(851 * MB, 851 * MB, 59.0 * 49 + 60) == {Sign.HOPELESS}


def test_wal_that_an_open_transaction_keeps_is_not_the_readers_fault() -> None:
    """The reader has confirmed nearly everything; giving the slot up would only lose changes."""
    watched = backlog(alarm=None, limit=100 * MB)
    assert not any(watched.look(900 * MB, 49 * MB, 100.0 * n) for n in range(10))


@pytest.mark.parametrize("behind", [50 * MB, 99 * MB])
def test_a_reader_that_is_half_a_limit_behind_is_to_blame(behind: int) -> None:
    """Also where the slot keeps more than what the reader lacks."""
    watched = backlog(alarm=None, limit=100 * MB)
    assert not watched.look(101 * MB, behind, 0.0)
    assert watched.look(101 * MB, behind, 60.0) == {Sign.HOPELESS}
