"""How long to wait before the next attempt."""

import pytest

from walagent.runs.backoff import delay


@pytest.mark.parametrize("attempt", range(1, 12))
def test_the_wait_doubles_up_to_two_minutes(attempt: int) -> None:
    """From one second on, with up to a second of jitter."""
    base = min(2.0 ** (attempt - 1), 120)
    waits = [delay(attempt) for _ in range(50)]
    assert all(base <= wait <= min(base + 1, 120) for wait in waits)


def test_not_everybody_comes_back_at_the_same_moment() -> None:
    """That is what the jitter is for."""
    assert len({delay(1) for _ in range(50)}) > 40


@pytest.mark.parametrize("attempt", [-1, 0])
def test_an_attempt_that_was_given_back_waits_like_the_first(attempt: int) -> None:
    """A refund takes the count below one."""
    assert 1 <= delay(attempt) <= 2


def test_who_asks_for_more_gets_it() -> None:
    """Less than our own wait is not less."""
    assert delay(1, asked=300) == 300
    assert delay(8, asked=1) >= 120
