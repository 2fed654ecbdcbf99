"""One attempt at a run: execute it, and store its next state if it raised."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.domain.run import Claim, RunSpec, RunState, Step
from walagent.errors import BudgetExceededError, LimitReachedError, WalagentError
from walagent.moves import RunEvent
from walagent.runs.awake_timeout import awake_for
from walagent.runs.error_policy import Outcome, outcome_of
from walagent.runs.executor import Executor
from walagent.runs.resources import Resources
from walagent.store import budgets, runs
from walagent.store.errors import translating
from walagent.store.pausing import pause_broken
from walagent.store.runs import Spent
from walagent.telemetry import metrics
from walagent.telemetry.log import log

_LEAVE_OUT = "to leave a column out, name others in columns of the attachment"
_BUSY = 5.0  # seconds until a run is retried whose attachment a transaction was changing

# A run that needs a person's attention is not lost among the others.
_LEVELS: Final = {
    RunState.FAILED: "warning",
    RunState.NEEDS_REVIEW: "warning",
    RunState.DEAD: "error",
}


def _check(claim: Claim) -> None:
    if (why := claim.unreadable) is not None:
        raise LimitReachedError(f"the run cannot be read: {why}; {_LEAVE_OUT}")


@dataclass(slots=True)
class RunAttempt:
    """An attempt and its result.

    Args:
        specify: returns what the claim executes.
        cancelled: whether a person cancelled the run.
        storing: called before the outcome is stored; the task must not be cancelled afterwards.
        due: seconds after which the run can be claimed again; None: it cannot.
        error: what it raised.
    """

    resources: Resources
    claim: Claim
    specify: Callable[[], Awaitable[RunSpec]]
    cancelled: Callable[[], bool]
    storing: Callable[[], None] = lambda: None
    watch: Callable[[RunEvent], None] = lambda _: None
    state: RunState | None = None
    due: float | None = None
    unblocked: bool = False
    error: BaseException | None = None
    stop: bool = False
    _name: str = ""
    _executor: Executor | None = None

    @property
    def steps(self) -> Sequence[Step]:
        """The recorded steps."""
        return self._executor.log.steps if self._executor else self.claim.steps

    @property
    def _is_attended(self) -> bool:
        """Whether a person waits for the run in this process."""
        return self.resources.kinds[self.claim.kind].patience > 0

    async def make(self) -> None:
        """Execute the run to its end or its next wait.  Handles every error of the run."""
        started, wake = time.monotonic(), None
        try:
            _check(self.claim)
            with translating():
                run = await self.specify()
            self._name = run.source
            self._executor = executor = Executor(self.resources, run, self.watch)
            async with awake_for(run.agent.limits.max_seconds) as wake:
                with translating():
                    self.state = await executor.execute()
            self.unblocked, self.due = executor.unblocked, executor.due
        except asyncio.CancelledError as error:
            self.error = error
            if not self.cancelled():
                raise
            await self._store(Outcome(RunState.CANCELLED, "cancelled"))
            await self._let_waiting_go_on()
        except Exception as error:  # noqa: BLE001 - every error ends the attempt
            self.error = error
            await self._raised(error, stood_still=wake is not None and wake.stood_still)
            await self._let_waiting_go_on()
        self._report(time.monotonic() - started)

    async def _let_waiting_go_on(self) -> None:
        """Let the runs go on that wait for the reply of this one, which has none."""
        if self._executor is None:
            return
        with suppress(WalagentError), translating():  # else they go on after the lease
            await self._executor.sharing.end()

    async def _raised(self, error: Exception, *, stood_still: bool) -> None:
        attended = self._is_attended
        outcome = outcome_of(
            error,
            self.claim,
            stood_still=stood_still,
            attended=attended,
            begun=self._executor is not None,
        )
        if attended and isinstance(error, BudgetExceededError) and not self.steps:
            outcome = Outcome(RunState.FAILED, outcome.reason)  # no steps to continue from
        if not isinstance(error, WalagentError | TimeoutError):
            log.error("run.crashed", run_id=self.claim.run_id, exc_info=error)
        await self._store(outcome)
        self.stop = outcome.stop

    async def _store(self, outcome: Outcome) -> None:
        """Store the run's next state.  If that fails, its lease expires."""
        if outcome.state is None:
            return
        self.storing()
        try:
            with translating():
                async with self.resources.pool.connection() as conn:
                    self.state = await self._continue(conn, outcome)
        except WalagentError as error:
            log.warning("run.store_failed", run_id=self.claim.run_id, error=error)

    async def _continue(self, conn: AsyncConnection[Any], outcome: Outcome) -> RunState:
        claim, executor = self.claim, self._executor
        spent = executor.log.spent if executor else Spent(0, None)
        reserved = executor is not None and executor.reservations.open
        state, delay = outcome.state or RunState.FAILED, outcome.delay
        if outcome.pause and not await pause_broken(
            conn, claim.attachment_id, self._name, outcome.reason
        ):
            state, delay = RunState.WAITING_RETRY, _BUSY
        if state not in {RunState.WAITING_RETRY, RunState.PENDING}:
            self.unblocked = await runs.finish_run(
                conn, claim, state, result=None, error=outcome.error, spent=spent, reserved=reserved
            )
            return state
        if outcome.refusal is not None:
            await budgets.wait_for_budget(conn, claim, outcome.refusal, spent)
        else:
            await runs.park_run(
                conn,
                claim,
                state,
                delay=delay,
                refund=outcome.refund,
                error=outcome.error,
                spent=spent,
                reserved=reserved,
            )
        self.due = delay
        return state

    def _report(self, elapsed: float) -> None:
        metrics.run_duration_seconds.observe(elapsed)
        if self._is_attended:
            return  # a person sees the answer
        level = _LEVELS.get(self.state, "info") if self.state else "info"
        getattr(log, level)(
            "run.processed",
            run_id=self.claim.run_id,
            kind=self.claim.kind,
            attachment=self.claim.attachment_id,
            lsn=self.claim.commit_lsn,
            state=self.state.value if self.state else "left",
            attempt=self.claim.attempt,
            seconds=round(elapsed, 3),
            **self._reason(),
        )

    def _reason(self) -> dict[str, str]:
        """Say why the run failed, without text that a provider, model or row can have chosen."""
        if self.state not in _LEVELS:
            return {}
        ended = self._executor.ended if self._executor else None
        if self.error is not None:
            state, words = getattr(self.error, "sqlstate", None), type(self.error).__name__
        elif ended is not None:
            # Of a decider's own words, those before a quotation.
            state, words = ended.sqlstate, "" if ended.sqlstate else ended.reason.partition(":")[0]
        else:
            return {}
        return {"reason": f"{words} (SQLSTATE {state})".strip() if state else words}
