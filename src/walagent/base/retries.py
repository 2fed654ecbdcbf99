"""What is tried again, how long it waits before, and when it stops: policies of tenacity.

A loop that only repeats uses `repeat`.  What keeps its state elsewhere (a run in its table, a
reader in its health) asks a policy for the seconds of its next wait.
"""

import math
from collections.abc import Awaitable, Callable
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
_RUN: Final = wait_exponential(multiplier=1, max=60) + wait_random_exponential(multiplier=1, max=60)


def doubling(first: float, longest: float) -> wait_base:
    """Return a policy that waits *first* seconds, then twice as long each time, up to *longest*."""
    return wait_exponential(multiplier=first, max=longest)


def seconds(policy: wait_base, attempts: int) -> float:
    """Return how long a policy waits after so many attempts."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = max(attempts, 1)  # a refund counts below one
    return policy(state)


def delay(attempt: int, asked: float | None = None) -> float:
    """Return the seconds until a run's next attempt, at least *asked*; first one to two."""
    return max(seconds(_RUN, attempt), asked or 0.0)


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
