"""What is tried again, how long it waits before, and when it stops: policies of tenacity.

A loop that only repeats uses `repeat`.  What keeps its state elsewhere (a run in its table, a
reader in its health) asks a policy for the seconds of its next wait.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_delay,
    stop_never,
)
from tenacity.wait import wait_base, wait_exponential, wait_random_exponential

T = TypeVar("T")

# Random, so that processes that failed at the same time do not try again at the same time.
DATABASE: Final = wait_random_exponential(multiplier=1, min=0.1, max=15)
# Short and random, so that two transactions do not conflict again.
CONFLICT: Final = wait_random_exponential(multiplier=0.02, max=0.5)
RUN: Final = wait_exponential(multiplier=1, max=60) + wait_random_exponential(multiplier=1, max=60)
# A receiver can be away for hours.
DELIVERY: Final = wait_exponential(multiplier=2, max=7200) + wait_random_exponential(max=60)
_LONGEST: Final = 3_600.0  # seconds; an answer that asks for more can be a mistake


def doubling(first: float, longest: float) -> wait_base:
    """Return a policy that waits *first* seconds, then twice as long each time, up to *longest*."""
    return wait_exponential(multiplier=first, max=longest)


def seconds(policy: wait_base, attempts: int) -> float:
    """Return how long a policy waits after so many attempts."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = max(attempts, 1)  # a refund counts below one
    return policy(state)


def delay(attempt: int, asked: float | None = None, policy: wait_base = RUN) -> float:
    """Return the seconds until a run's next attempt, at least *asked*; first one to two."""
    return max(seconds(policy, attempt), asked or 0.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait, at most an hour; None if it does not ask.

    A date is measured against the answer's own date, where it has one: clocks differ.

    Args:
        headers: with lower-case names, or of a kind that does not mind the case.

    Source: RFC 9110, section 10.2.3; `retry-after-ms` is what SDKs of models read before it.
    """
    millis = _number(headers.get("retry-after-ms", ""))
    if millis is not None:
        return min(millis / 1000, _LONGEST)
    text = headers.get("retry-after", "")
    wait = _number(text)
    if wait is None and (moment := _moment(text)) is not None:
        now = _moment(headers.get("date", "")) or datetime.now(UTC)
        wait = max(0.0, (moment - now).total_seconds())
    return None if wait is None else min(wait, _LONGEST)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


async def repeat(
    act: Callable[[], Awaitable[T]],
    repeats: Callable[[BaseException], bool],
    waiting: Callable[[BaseException], object] = lambda _: None,
    *,
    wait: wait_base = DATABASE,
    within: float = math.inf,
) -> T:
    """Return what *act* returns; repeat it while it raises errors that *repeats* accepts.

    Args:
        waiting: called with the error before each wait.
        within: seconds after which the last error is raised.
    """

    def before_sleep(state: RetryCallState) -> None:
        if state.outcome is not None and (error := state.outcome.exception()) is not None:
            waiting(error)

    attempts = AsyncRetrying(
        retry=retry_if_exception(repeats),
        wait=wait,
        stop=stop_after_delay(within) if within < math.inf else stop_never,
        before_sleep=before_sleep,
        reraise=True,
    )
    async for attempt in attempts:
        with attempt:
            return await act()
    raise AssertionError("the last attempt returns or raises")


def of(*errors: type[BaseException]) -> Callable[[BaseException], bool]:
    """Return what accepts errors of these classes."""
    return lambda error: isinstance(error, errors)
