"""Reserve the maximum cost of a model call in the run's limit and in each budget.

If the maximum does not fit, the output limit of the request is lowered to what is left.
"""

import asyncio
import time
from collections.abc import Sequence
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

    async def release(self, call: int) -> None:
        """Release the reservation of a call that has no reply and will not be repeated."""
        if call not in self._open:
            return
        async with self._pool.connection() as conn:
            await budgets.release_call(conn, self._run.claim, call)
        self._open.discard(call)

    async def reserve(self, call: int, models: Sequence[ModelSpec], request: Request) -> Reserved:
        """Reserve the maximum cost of a call.

        Args:
            call: its number within the run.
            models: the one that is asked, then those that may be asked instead; the most expensive
                bound of them is reserved.

        Raises:
            BudgetExceededError: a budget does not allow it at present.
            LimitReachedError: it exceeds the run's limit, or a budget will never allow it.
        """
        model = models[0]
        for each in models:
            request = self._within_limit(each, request)
        if not self._known.count(self._run, model.name, free=all(map(is_free, models))):
            return Reserved(request, counted=False)
        deadline = time.monotonic() + self._patience
        while True:
            refusal = await self._try(call, _worst(request, models))
            if refusal is None:
                return Reserved(request, counted=True)
            if (smaller := _what_fits(refusal, models, request)) is not None:
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


def _worst(request: Request, models: Sequence[ModelSpec]) -> WorstCase:
    """Return the highest bounds of the models; a cost that is unknown is higher than any."""
    cases = [worst_case(request, model) for model in models]
    known = [cost for _, cost in cases if cost is not None]
    most = max(known) if len(known) == len(cases) else None
    return WorstCase(models[0].name, max(tokens for tokens, _ in cases), most)


def _what_fits(refusal: Refusal, models: Sequence[ModelSpec], request: Request) -> Request | None:
    """Lower the output limit to what the budget has left; None if that does not help."""
    if refusal.left_cost is None and refusal.left_tokens is None:
        return None
    smaller: Request | None = request
    for model in models:
        if smaller is not None:
            smaller = within(smaller, model, cost=refusal.left_cost, tokens=refusal.left_tokens)
    return None if smaller == request else smaller
