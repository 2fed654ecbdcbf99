"""How long to wait before the next attempt, and when to stop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.base.retries import (
    CONFLICT,
    DATABASE,
    delay,
    doubling,
    of,
    repeat,
    retry_after,
    seconds,
)


def test_the_wait_doubles_up_to_the_cap() -> None:
    """Without jitter it is exact."""
    waits = [seconds(doubling(0.5, 3), attempts) for attempts in range(1, 6)]
    assert waits == [0.5, 1, 2, 3, 3]


@pytest.mark.parametrize("policy", [CONFLICT, DATABASE, doubling(1, 15)])
def test_the_wait_of_many_failures_is_the_cap(policy: object) -> None:
    """A daemon that has waited for a week does not overflow."""
    assert 0 <= seconds(policy, 100_000) <= 15  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("attempt", [-1, 0, 1])
def test_an_attempt_that_was_given_back_waits_like_the_first(attempt: int) -> None:
    """A refund takes the count below one."""
    assert all(1 <= delay(attempt) <= 2 for _ in range(50))


def test_a_run_waits_two_minutes_at_most_unless_more_is_asked_for() -> None:
    """A provider's `retry-after` is a lower bound."""
    waits = [delay(50) for _ in range(200)]
    assert all(60 <= wait <= 120 for wait in waits)
    assert len(set(waits)) > 100  # never the same for everyone
    assert delay(1, asked=300) == 300
    assert 60 <= delay(50, asked=1) <= 120


def test_the_database_is_tried_again_within_fifteen_seconds() -> None:
    """However long it has been gone; the first time within a second."""
    assert all(0 < seconds(DATABASE, 1) <= 1 for _ in range(50))
    assert all(seconds(DATABASE, 1000) <= 15 for _ in range(50))


def test_a_conflict_costs_half_a_second_at_most() -> None:
    """The application's transactions are short."""
    assert all(seconds(CONFLICT, attempt) <= 0.5 for attempt in range(1, 100))


async def test_what_is_accepted_is_repeated_and_the_last_error_is_raised() -> None:
    """Other errors are raised at once."""
    raised: list[BaseException] = []

    async def fail(error: Exception) -> None:
        raise error

    async def repeated(error: Exception) -> None:
        await repeat(lambda: fail(error), of(ValueError), raised.append, wait=CONFLICT, within=0.2)

    with pytest.raises(ValueError, match="again"):
        await repeated(ValueError("again"))
    tried = len(raised)
    assert tried > 1
    with pytest.raises(KeyError):
        await repeated(KeyError("other"))
    assert len(raised) == tried


async def test_what_succeeds_at_last_is_returned() -> None:
    """Of a function that returns an awaitable, whatever kind of function it is."""
    outcomes = iter([ValueError("one"), ValueError("two"), "done"])

    async def next_one() -> str:
        if isinstance(found := next(outcomes), Exception):
            raise found
        return found

    assert await repeat(lambda: next_one(), of(ValueError), wait=CONFLICT) == "done"  # noqa: PLW0108 - as callers do


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e9"}, 3_600.0),
        ({"retry-after": "Wed, 21 Oct 9999 07:28:00 GMT"}, 3_600.0),
        ({"retry-after": "Wed, 21 Oct 2026 99:28:00 GMT"}, None),
        ({"retry-after": "99999999999999999999 Oct 1 1:1:1"}, None),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        (
            {
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
            },
            30.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_the_wait_is_read_in_every_form(headers: dict[str, str], wait: float | None) -> None:
    """Seconds, milliseconds and dates; what is none of these is not waited for."""
    assert retry_after(headers) == wait


@given(st.text())
def test_whatever_the_header_says_it_is_a_wait_or_none(text: str) -> None:
    """Nobody can break a run, or stop it for days, with a header."""
    wait = retry_after({"retry-after": text, "date": text})
    assert wait is None or 0 <= wait <= 3_600
