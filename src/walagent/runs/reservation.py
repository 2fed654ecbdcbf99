"""Reserve the maximum cost of a model call in the run's limit and in each budget.

If the maximum does not fit, the output limit of the request is lowered to what is left.
"""

import asyncio
import time
from dataclasses import dataclass, replace
from decimal import Decimal

from walagent.deciders.loop import since_retry
from walagent.domain.run import RunSpec
from walagent.errors import BudgetExceededError, LimitReachedError
from walagent.message import ModelSpec, Request, Usage
from walagent.models.cost import (
    LEAST_OUTPUT,
    is_free,
    within,
    worst_case,
    worst_case_cost,
)
from walagent.runs.budgets import Budgets
from walagent.runs.step_log import StepLog
from walagent.store import budgets
from walagent.store.budgets import Refusal, WorstCase
from walagent.store.sessions.connections import Pool

_HINT = "Run walagent agents budgets to see what is left, and when they reset."


@dataclass(frozen=True, slots=True)
class Reserved:
    """A request whose output limit is affordable, and whether a budget counts it."""

    request: Request
    counted: bool


class Reservations:
    """The reservations of one run."""

    def __init__(
        self, pool: Pool, known: Budgets, run: RunSpec, log: StepLog, patience: float
    ) -> None:
        """Reserve nothing yet.

        Args:
            patience: seconds to wait for reservations of other calls before the run is released.
        """
        self._pool = pool
        self._known = known
        self._run = run
        self._log = log
        self._patience = patience
        self._open: set[int | None] = set()  # calls that may have a reservation

    @property
    def open(self) -> bool:
        """Whether a reservation might be open."""
        return bool(self._open)

    def settled(self, call: int | None) -> None:
        """Record that a call is settled with its step."""
        self._open -= {call}

    async def settle_unusable(self, call: int | None, usage: Usage, cost: Decimal | None) -> None:
        """Count a reply that came and could not be used.

        Args:
            call: its number; None: no budget counts it.
        """
        if call is None:
            return
        async with self._pool.connection() as conn:
            await budgets.settle_unusable(conn, self._run.claim, call, usage, cost)
        self.settled(call)

    async def reserve(self, call: int, model: ModelSpec, request: Request) -> Reserved:
        """Reserve the maximum cost of a call.

        Args:
            call: its number within the run.

        Raises:
            BudgetExceededError: a budget does not allow it at present.
            LimitReachedError: it exceeds the run's limit, or a budget will never allow it.
        """
        request = self._within_limit(model, request)
        if not self._known.count(self._run, model.name, free=is_free(model)):
            return Reserved(request, counted=False)
        deadline = time.monotonic() + self._patience
        while True:
            worst = WorstCase(model.name, *worst_case(request, model))
            refusal = await self._try(call, worst)
            if refusal is None:
                return Reserved(request, counted=True)
            if (smaller := _what_fits(refusal, model, request)) is not None:
                request = smaller
                continue
            if refusal.wait is None and request.max_tokens > LEAST_OUTPUT:
                # It fails only if not even this fits into the whole budget.
                request = replace(request, max_tokens=LEAST_OUTPUT)
                continue
            self._known.note(refusal)
            if refusal.wait is None:
                raise LimitReachedError(refusal.reason, hint=_HINT)
            if not self._patience or time.monotonic() + refusal.wait > deadline:
                raise BudgetExceededError(refusal.reason, refusal=refusal.raw, hint=_HINT)
            await asyncio.sleep(refusal.wait)

    async def _try(self, call: int, worst: WorstCase) -> Refusal | None:
        self._open.add(call)  # also if the reply is lost
        async with self._pool.connection() as conn:
            refusal = await budgets.reserve(conn, self._run, call, worst)
        if refusal is not None:
            self._open.discard(call)
        return refusal

    def _within_limit(self, model: ModelSpec, request: Request) -> Request:
        limit = self._run.agent.limits.max_cost
        if limit is None:
            return request
        spent = sum(step.cost or 0 for step in since_retry(self._log.steps))
        fitting = within(request, model, cost=Decimal(str(limit)) - Decimal(str(spent)))
        if fitting is None:
            worst = worst_case_cost(replace(request, max_tokens=LEAST_OUTPUT), model) or 0
            raise LimitReachedError(
                f"max_cost reached: {spent:.6f} of {limit} US dollars spent,"
                f" the next call may cost {float(worst):.6f} with {LEAST_OUTPUT} output tokens",
                hint="Raise max_cost, shorten the prompt, or use a less expensive model.",
            )
        return fitting


def _what_fits(refusal: Refusal, model: ModelSpec, request: Request) -> Request | None:
    """Lower the output limit to what the budget has left; None if that does not help."""
    if refusal.left_cost is None and refusal.left_tokens is None:
        return None
    smaller = within(request, model, cost=refusal.left_cost, tokens=refusal.left_tokens)
    return None if smaller == request else smaller
