"""What a process knows of the database and the providers from earlier questions."""

import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from psycopg import Error

from walagent.errors import CircuitBreakerOpenError, ConflictError, DatabaseLostError
from walagent.models.limits import ModelLimits
from walagent.store.errors import is_conflict, is_passing

_FAILURES: Final = 5  # failures of the database …
_WINDOW: Final = 60.0  # … within so many seconds open the breaker until the first is older


class Breaker:
    """Stops work on a database that fails; a statement that is wrong is no failure."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without failures."""
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=_FAILURES)

    @contextmanager
    def watching(self) -> Generator[None]:
        """Count the block if it fails because of the server.

        Raises:
            CircuitBreakerOpenError: the block was not tried.
        """
        self._check()
        try:
            yield
        except (Error, DatabaseLostError) as error:
            if _is_failure(error):
                self._failures.append(self._clock())
            raise

    def _check(self) -> None:
        if len(self._failures) < _FAILURES:
            return
        left = self._failures[0] + _WINDOW - self._clock()
        if left > 0:
            raise CircuitBreakerOpenError(
                f"circuit breaker open after {_FAILURES} failures of the database in"
                f" {_WINDOW:g} s; next attempt in {left:.0f} s"
            )


def _is_failure(error: Error | DatabaseLostError) -> bool:
    if isinstance(error, DatabaseLostError):
        return not isinstance(error, ConflictError)
    return is_passing(error) and not is_conflict(error)


@dataclass(frozen=True, slots=True)
class Health:
    """The circuit breakers of one database and of the models that are asked about it."""

    database: Breaker = field(default_factory=Breaker)
    models: ModelLimits = field(default_factory=ModelLimits)
