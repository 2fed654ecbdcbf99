"""How long to wait before the next attempt: tenacity's policies, asked for a number."""

from tenacity import RetryCallState, wait_exponential_jitter, wait_random_exponential

# Doubling from one second to two minutes, with up to a second of jitter so that a provider which
# comes back does not meet everybody at once.
_WAIT = wait_exponential_jitter(initial=1, max=120, jitter=1)
# Between two tries of what somebody else's transaction was in the way of; those are short.
_BRIEF = wait_random_exponential(multiplier=0.02, max=0.5)


def delay(attempt: int, asked: float | None = None) -> float:
    """Seconds to wait after the *attempt*-th failure; at least what the other side asked for."""
    return max(_WAIT(_state(attempt)), asked or 0.0)


def brief(attempt: int) -> float:
    """Seconds to wait after the *attempt*-th conflict; random, so that two do not meet again."""
    return _BRIEF(_state(attempt))


def _state(attempt: int) -> RetryCallState:
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    state.attempt_number = max(1, attempt)
    return state


def pause_after(failures: int) -> float:
    """Seconds to wait after losing the database for the *failures*-th time in a row."""
    return max(0.05, min(delay(failures) - 0.9, 15.0))
