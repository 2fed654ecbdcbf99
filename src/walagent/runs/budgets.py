"""Which calls a budget counts, as this process knows it, so that all others cost no statement.

What is left of a budget only PostgreSQL knows: `agent_internal.reserve` decides.
"""

import time
from collections.abc import Sequence

from walagent import metrics
from walagent.attachment import Attachment
from walagent.log import log
from walagent.store.budgets import Refusal, Scope

_QUIET = 60.0  # seconds between two log lines about one budget; a thousand runs may meet it at once


class Budgets:
    """The budgets that there were when last asked; a worker asks at its start and as it beats."""

    def __init__(self, scopes: Sequence[Scope] = ()) -> None:
        self._scopes = tuple(scopes)
        self._told: dict[str, float] = {}

    def replace(self, scopes: Sequence[Scope]) -> None:
        """Know these, and no others."""
        self._scopes = tuple(scopes)

    def count(self, attachment: Attachment, model: str, *, free: bool) -> bool:
        """Whether some budget counts calls of *model* by *attachment*.

        Args:
            free: the model costs nothing, so that only limits of tokens matter.
        """
        return any(
            scope.includes(attachment, model) and (scope.counts_tokens or not free)
            for scope in self._scopes
        )

    def tell(self, refusal: Refusal) -> None:
        """Count a refusal, and log it, though not each of many."""
        metrics.budget_refusals.labels(refusal.budget).inc()
        now = time.monotonic()
        if now - self._told.get(refusal.budget, -_QUIET) >= _QUIET:
            self._told[refusal.budget] = now
            log.warning("budget.refused", budget=refusal.budget, wait=refusal.wait)
