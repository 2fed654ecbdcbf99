"""Reserve the maximum cost of a model call in the run's limit and in each budget."""

import asyncio
import time

from walagent.agent.models.cost import is_free, worst_case, worst_case_cost
from walagent.errors import BudgetExceededError, LimitReachedError
from walagent.message import ModelSpec, Request
from walagent.run import RunSpec
from walagent.runs.budgets import Budgets
from walagent.runs.step_log import StepLog
from walagent.store import budgets
from walagent.store.budgets import Refusal, WorstCase
from walagent.store.connections import Pool

_HINT = "Run walagent budgets to see what is left, and when they reset."


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

    async def reserve(self, call: int, model: ModelSpec, request: Request) -> bool:
        """Reserve the maximum cost of a call; return whether a budget counts it.

        Args:
            call: its number within the run.

        Raises:
            BudgetExceededError: a budget does not allow it at present.
            LimitReachedError: it exceeds the run's limit, or a budget will never allow it.
        """
        self._check_limit(model, request)
        if not self._known.count(self._run, model.name, free=is_free(model)):
            return False
        worst = WorstCase(model.name, *worst_case(request, model))
        deadline = time.monotonic() + self._patience
        while (refusal := await self._try(call, worst)) is not None:
            if refusal.wait is None:
                raise LimitReachedError(refusal.reason, hint=_HINT)
            if not self._patience or time.monotonic() + refusal.wait > deadline:
                raise BudgetExceededError(refusal.reason, refusal=refusal.raw, hint=_HINT)
            await asyncio.sleep(refusal.wait)
        return True

    async def _try(self, call: int, worst: WorstCase) -> Refusal | None:
        self._open.add(call)  # also if the reply is lost
        async with self._pool.connection() as conn:
            refusal = await budgets.reserve(conn, self._run, call, worst)
        if refusal is not None:
            self._open.discard(call)
            self._known.note(refusal)
        return refusal

    def _check_limit(self, model: ModelSpec, request: Request) -> None:
        limit = self._run.agent.limits.max_cost
        if limit is None:
            return
        worst, spent = worst_case_cost(request, model), self._log.spent.cost or 0.0
        if worst is not None and float(worst) + spent > limit:
            raise LimitReachedError(
                f"max_cost reached: {spent:.6f} of {limit} US dollars spent,"
                f" the next call may cost {float(worst):.6f}"
            )
