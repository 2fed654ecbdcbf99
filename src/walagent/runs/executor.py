"""One run, from its claim to its end: decide, act, record, again.

`agent.loop.next_move` decides from the recorded steps; here its moves are carried out.  No
transaction and no connection is held while a model is asked.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any, TypeVar

from psycopg import AsyncConnection

from walagent import faults, metrics
from walagent.agent.arguments import what_is_wrong
from walagent.agent.loop import (
    AskApproval,
    AskModel,
    AskReview,
    Correct,
    Fail,
    Finish,
    Move,
    Refuse,
    RunTool,
    next_move,
)
from walagent.agent.model import Model
from walagent.agent.models.cost import cost_of, is_free, worst_case, worst_case_cost
from walagent.agent.prompt import build_request, marker
from walagent.agent.transcript import reply_to_json, result_to_json
from walagent.attachment import Attachment
from walagent.errors import (
    BudgetExceededError,
    DatabaseLostError,
    LimitReachedError,
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    RunCancelledError,
    StepTakenError,
    WalagentError,
)
from walagent.intake.deferred import check_drift, evaluate_deferred, is_deferred
from walagent.matching.document import ROOM, Room
from walagent.message import Json, ModelSpec, Request, Usage
from walagent.run import Claim, RunState, Step, StepKind
from walagent.runs.backoff import pause_after
from walagent.runs.budgets import Budgets
from walagent.runs.error_policy import Outcome
from walagent.runs.toolbox import Toolbox
from walagent.runs.visibility import Visibility
from walagent.store import budgets, runs
from walagent.store.connections import Pool
from walagent.store.errors import translating
from walagent.store.runs import NewStep, Spent

T = TypeVar("T")


async def _nothing_to_prepare(_model: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Workshop:
    """What every run of a worker shares."""

    pool: Pool
    toolbox: Toolbox
    model_of: Callable[[str], Model]
    key: bytes  # agent_internal.secret
    # How many runs of a model a worker with so many slots may hold, where not all of them.
    tight: Callable[[int], Mapping[str, int]] = lambda _slots: {}
    prepare: Callable[[str], Awaitable[None]] = _nothing_to_prepare
    budgets: Budgets = field(default_factory=Budgets)
    room: Room = ROOM  # how much of a change a run keeps


class Work:
    """A claimed run in progress."""

    def __init__(
        self, shop: Workshop, claim: Claim, attachment: Attachment, sight: Visibility
    ) -> None:
        self._shop = shop
        self._sight = sight
        self._claim = claim
        self._attachment = attachment
        self._steps: list[Step] = list(claim.steps)
        self.unblocked = False  # whether ending it let another run go
        self.reserved = False  # whether budgets may hold a reservation for a call that goes on

    @property
    def spent(self) -> Spent:
        """Tokens and cost of all recorded steps."""
        costs = [step.cost for step in self._steps if step.cost is not None]
        return Spent(sum(step.tokens for step in self._steps), sum(costs) if costs else None)

    async def carry_on(self) -> RunState:
        """Work until the run ends or waits; return how."""
        if is_deferred(self._claim):
            evaluated = await evaluate_deferred(
                self._shop.pool, self._claim, self._attachment, self._shop.room
            )
            if isinstance(evaluated, Outcome):
                return await self._end(evaluated.state or RunState.SKIPPED, error=evaluated.error)
            self._claim = evaluated
        begun = bool(self._steps)
        if not await self._sight.allows(self._attachment, self._claim.change, begun=begun):
            await check_drift(self._shop.pool, self._attachment)
            role = self._attachment.authority.run_as
            reason = f"{role} cannot see this row (row level security, or gone)"
            return await self._end(RunState.SKIPPED, error={"reason": reason})
        while True:
            state = await self._carry_out(self._next())
            if state is not None:
                return state

    def _next(self) -> Move:
        return next_move(self._steps, self._attachment, what_is_wrong)

    async def _carry_out(self, move: Move) -> RunState | None:
        match move:
            case AskModel():
                return await self._ask_model()
            case RunTool():
                return await self._run_tool(move)
            case Refuse(call, reason, correction):
                metrics.tool_calls.labels("invalid" if correction else "refused").inc()
                content = result_to_json(call, reason, is_error=True)
                mark = {"correction": True} if correction else {}
                await self._record(StepKind.RESULT, {**content, **mark})
            case Correct(text):
                await self._record(StepKind.NOTE, {"text": text, "correction": True})
            case AskApproval(call, _):
                async with self._shop.pool.connection() as conn, conn.transaction():
                    await runs.ask_approval(
                        conn,
                        self._claim,
                        self._seq,
                        call,
                        self._attachment.authority.run_as,
                        self._attachment.authority.approval_seconds,
                        self.spent,
                    )
                return RunState.WAITING_APPROVAL
            case AskReview(call, tool):
                metrics.tool_calls.labels("unknown").inc()
                reason = f"{tool.name} was started and nobody knows whether it acted"
                await self._park(RunState.NEEDS_REVIEW, {"reason": reason, "call_id": call.id})
                return RunState.NEEDS_REVIEW
            case Finish(text):
                return await self._end(RunState.SUCCEEDED, result=text)
            case Fail(reason):
                return await self._end(RunState.FAILED, error={"reason": reason})
        return None

    async def _ask_model(self) -> RunState | None:
        """Ask, then record: no row waits for a model.  The last reply is recorded with the end."""
        model = self._shop.model_of(self._attachment.agent.model)
        request = self._request(model)
        await self._reserve(model.spec, request)
        faults.hit("model.asking")
        started = time.monotonic()
        with _counting(model.spec.name):
            reply = await model.complete(request)
        faults.hit("model.answered")
        cost = cost_of(reply.usage, model.spec)
        _count(model.spec.name, reply.usage, cost)
        step = NewStep(
            self._seq,
            StepKind.REPLY,
            reply_to_json(reply),
            reply.usage,
            None if cost is None else float(cost),
            int((time.monotonic() - started) * 1000),
        )
        self._steps.append(step.recorded)
        match self._next():
            case Finish(text):
                return await self._end(RunState.SUCCEEDED, result=text, last=step)
            case Fail(reason):
                return await self._end(RunState.FAILED, error={"reason": reason}, last=step)
            case _:
                return await self._record_reply(step)

    async def _record_reply(self, step: NewStep) -> RunState | None:
        """Record a reply after which the run goes on.  If it is cancelled, it ends with this."""
        try:
            await self._keep(
                lambda conn: runs.record_step(conn, self._claim, step, reserved=self.reserved)
            )
        except RunCancelledError as error:
            return await self._end(RunState.CANCELLED, error={"reason": str(error)}, last=step)
        self.reserved = False
        faults.hit("step.recorded")
        return None

    def _request(self, model: Model) -> Request:
        """Build the request, if its worst case still fits the run's limit of cost.

        Raises:
            LimitReachedError: it does not; nothing was asked.
        """
        spec, limit = model.spec, self._attachment.agent.limits.max_cost
        request = build_request(
            self._claim,
            self._steps,
            self._attachment,
            mark=marker(self._shop.key, self._claim.run_id),
            spec=spec,
        )
        if limit is not None:
            worst, spent = worst_case_cost(request, spec), self.spent.cost or 0.0
            if worst is not None and float(worst) + spent > limit:
                raise LimitReachedError(
                    f"the next model call may cost {float(worst):.6f} US dollars, {spent:.6f} are"
                    f" spent and {limit} are allowed (max_cost)"
                )
        return request

    async def _reserve(self, spec: ModelSpec, request: Request) -> None:
        """Reserve what the call can take at most, where a budget counts it.

        Raises:
            BudgetExceededError: it does not fit now.
            LimitReachedError: it does not fit, and waiting does not help or is not wanted.
        """
        if not self._shop.budgets.count(self._attachment, spec.name, free=is_free(spec)):
            return
        tokens, cost = worst_case(request, spec)
        self.reserved = True  # also when we do not hear of it
        async with self._shop.pool.connection() as conn:
            refusal = await budgets.reserve(
                conn, self._claim, self._seq, self._attachment, spec.name, tokens, cost
            )
        if refusal is None:
            return
        self.reserved = False
        self._shop.budgets.tell(refusal)
        if refusal.wait is None:
            raise LimitReachedError(refusal.reason)
        raise BudgetExceededError(refusal.reason, refusal=refusal.raw)

    async def _run_tool(self, move: RunTool) -> RunState | None:
        """Carry a call out; one that a person has approved, only as that person saw it."""
        if move.tool.approval:
            async with self._shop.pool.connection() as conn:
                approved = await runs.is_approved(conn, self._claim, move.call)
            if not approved:
                reason = f"this call of {move.tool.name} is not the one that was approved"
                return await self._end(RunState.FAILED, error={"reason": reason})
        steps = await self._shop.toolbox.carry_out(self._claim, self._attachment, self._seq, move)
        self._steps.extend(step.recorded for step in steps)
        failed = bool(steps[-1].content.get("is_error"))
        metrics.tool_calls.labels("failed" if failed else "ok").inc()
        return None

    @property
    def _seq(self) -> int:
        return self._steps[-1].seq + 1 if self._steps else 0

    async def _record(self, kind: StepKind, content: Mapping[str, Json]) -> None:
        step = NewStep(self._seq, kind, content)
        async with self._shop.pool.connection() as conn:
            await runs.record_step(conn, self._claim, step)
        self._steps.append(step.recorded)

    async def _park(self, state: RunState, error: Mapping[str, Json]) -> None:
        async with self._shop.pool.connection() as conn:
            await runs.park_run(
                conn, self._claim, state, refund=True, error=error, spent=self.spent
            )

    async def _end(
        self,
        state: RunState,
        *,
        result: str | None = None,
        error: Mapping[str, Json] | None = None,
        last: NewStep | None = None,
    ) -> RunState:
        faults.hit("run.finished")
        unblocked = await self._keep(
            lambda conn: runs.finish_run(
                conn,
                self._claim,
                state,
                result=result,
                error=error,
                spent=self.spent,
                last=last,
                reserved=self.reserved,
            )
        )
        self.unblocked = bool(unblocked)
        faults.hit("run.committed")
        return state

    async def _keep(self, write: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T | None:
        """Write what a model has answered; a lost connection is no reason to ask it again.

        Goes on for as long as the run is ours: another worker, its time or a person ends it.
        """
        for attempt in count(1):
            try:
                with translating():
                    async with self._shop.pool.connection() as conn:
                        return await write(conn)
            except DatabaseLostError:
                await asyncio.sleep(pause_after(attempt))
            except StepTakenError:
                if attempt == 1:
                    raise
                return None  # it was written before, and only the answer to that was lost
        return None


_OUTCOMES: Mapping[type[WalagentError], str] = {
    ModelLimitedError: "limited",
    ModelUnavailableError: "unavailable",
    ModelRejectedError: "rejected",
    ModelUnauthorizedError: "unauthorized",
}


@contextmanager
def _counting(model: str) -> Generator[None]:
    """Count a call by how it ends."""
    try:
        yield
    except WalagentError as error:
        held = isinstance(error, ModelLimitedError) and not error.sent
        outcome = "held" if held else _OUTCOMES.get(type(error), "rejected")
        metrics.model_requests.labels(model, outcome).inc()
        raise
    metrics.model_requests.labels(model, "ok").inc()


def _count(model: str, usage: Usage, cost: Decimal | None) -> None:
    for kind, tokens in (
        ("input", usage.input_tokens),
        ("cached", usage.cached_tokens),
        ("cache_write", usage.cache_write_tokens),
        ("output", usage.output_tokens),
    ):
        if tokens:
            metrics.model_tokens.labels(model, kind).inc(tokens)
    if cost:
        metrics.cost_usd.labels(model).inc(float(cost))
