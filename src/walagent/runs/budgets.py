"""Which calls a budget counts, as far as this process knows: all others cost no statement.

`agent_internal.reserve` decides whether a budget allows a call.
"""

import time
from collections.abc import Sequence

from walagent.domain.run import RunSpec
from walagent.store.budgets import BudgetScope, Refusal
from walagent.telemetry import metrics
from walagent.telemetry.log import log

_QUIET = 60.0  # seconds between two log lines about one budget


class Budgets:
    """The budgets as last read; a worker reads them at its start and with each heartbeat."""

    def __init__(self, scopes: Sequence[BudgetScope] | None = ()) -> None:
        """Take the scopes; None: they cannot be read, and every call must be reserved."""
        self._scopes = None if scopes is None else tuple(scopes)
        self._noted: dict[str, float] = {}

    def replace(self, scopes: Sequence[BudgetScope]) -> None:
        """Replace the scopes."""
        self._scopes = tuple(scopes)

    def count(self, run: RunSpec, model: str, *, free: bool) -> bool:
        """Whether some budget counts calls of *model* by *run*.

        Args:
            free: the model costs nothing, so that only token limits count it.
        """
        return self._scopes is None or any(
            scope.includes(run, model) and (scope.counts_tokens or not free)
            for scope in self._scopes
        )

    def note(self, refusal: Refusal) -> None:
        """Count a refusal, and log it at most once a minute for each budget.

        It is not logged if the budgets cannot be read: the person who waits for the call sees it.
        """
        metrics.budget_refusals.labels(refusal.budget).inc()
        if self._scopes is None:
            return
        now = time.monotonic()
        if now - self._noted.get(refusal.budget, -_QUIET) >= _QUIET:
            self._noted[refusal.budget] = now
            log.warning("budget.exceeded", budget=refusal.budget, wait=refusal.wait)
