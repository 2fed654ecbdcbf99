"""Compute the wait before the next attempt: exponential backoff with jitter and a cap."""

import random


def backoff(failures: int, *, first: float, longest: float, jitter: float = 0.0) -> float:
    """Return the seconds to wait after *failures* in a row: *first*, doubled for each further one.

    Args:
        longest: the cap, in seconds.
        jitter: the random share of the wait, 0 to 1, so that processes that failed at the same
            time do not retry at the same time.
    """
    doublings = min(max(failures, 1) - 1, 30)  # a refund counts below one; no overflow
    wait = min(first * 2.0**doublings, longest)
    return wait * (1 - jitter * random.random())  # noqa: S311 - not for keys


def delay(attempt: int, asked: float | None = None) -> float:
    """Return the seconds until a run's next attempt, at least *asked*; first one to two."""
    return max(backoff(attempt, first=2, longest=120, jitter=0.5), asked or 0.0)


def brief(attempt: int) -> float:
    """Return the seconds to wait after a conflict with another transaction.

    They are short and random, so that the two transactions do not conflict again.
    """
    return backoff(attempt, first=0.02, longest=0.5, jitter=1)


def pause_after(failures: int) -> float:
    """Return the seconds to wait after losing the database *failures* times in a row."""
    return backoff(failures, first=1, longest=15, jitter=0.9)
