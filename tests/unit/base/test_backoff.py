"""How long to wait before the next attempt."""

import pytest

from walagent.base.backoff import backoff, brief, delay, pause_after


def test_the_wait_doubles_up_to_the_cap() -> None:
    """Without jitter it is exact."""
    waits = [backoff(failures, first=0.5, longest=3) for failures in range(1, 6)]
    assert waits == [0.5, 1, 2, 3, 3]


def test_the_wait_of_many_failures_is_the_cap() -> None:
    """A daemon that has waited for a week does not overflow."""
    assert backoff(100_000, first=0.02, longest=15) == 15


@pytest.mark.parametrize("failures", [1, 3, 50])
def test_jitter_takes_a_random_share_off(failures: int) -> None:
    """Never more than the share, and never the same for everyone."""
    full = backoff(failures, first=2, longest=120)
    waits = [backoff(failures, first=2, longest=120, jitter=0.5) for _ in range(200)]
    assert all(full / 2 < wait <= full for wait in waits)
    assert max(waits) - min(waits) > full / 4
    assert len(set(waits)) > 100


@pytest.mark.parametrize("attempt", [-1, 0])
def test_an_attempt_that_was_given_back_waits_like_the_first(attempt: int) -> None:
    """A refund takes the count below one."""
    assert 1 <= delay(attempt) <= 2


def test_a_run_waits_two_minutes_at_most_unless_more_is_asked_for() -> None:
    """A provider's `retry-after` is a lower bound."""
    assert 60 <= delay(50) <= 120
    assert delay(1, asked=300) == 300
    assert 60 <= delay(50, asked=1) <= 120


def test_the_database_is_tried_again_within_fifteen_seconds() -> None:
    """However long it has been gone; the first time within a second."""
    assert all(0 < pause_after(1) <= 1 for _ in range(50))
    assert all(pause_after(1000) <= 15 for _ in range(50))


def test_a_conflict_costs_half_a_second_at_most() -> None:
    """The application's transactions are short."""
    assert all(brief(attempt) <= 0.5 for attempt in range(1, 100))
