"""One question, held by the process that asked it: a worker with one slot.

The executor is the one of every run; here are the kind `question`, and what its watchers see.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.ask import prompts
from walagent.ask.actor import PlanActor, step_of
from walagent.ask.catalog import Catalog
from walagent.ask.decider import PromptLimits, QuestionDecider
from walagent.ask.moves import arguments_of
from walagent.ask.options import Options
from walagent.ask.outcome import (
    ModelAsked,
    PlanMade,
    QuestionEvent,
    QuestionResult,
    Status,
    StepDone,
    StepStarted,
)
from walagent.ask.plan import read_plan
from walagent.ask.reading import read_outcome
from walagent.ask.results import StepResult
from walagent.ask.statements import Statements
from walagent.base.concurrency import first_of
from walagent.domain.agent_spec import AgentSpec, Authority, RunLimits
from walagent.domain.run import RunSpec, RunState, Step
from walagent.errors import InvalidCallError, LeaseLostError, PreconditionError
from walagent.message import Reply
from walagent.models.model import Model
from walagent.moves import Acting, Asking, Call, End, Kind, Prompt, Recorded, RunEvent, fail
from walagent.runs.attempt import RunAttempt
from walagent.runs.budgets import Budgets
from walagent.runs.leases import Held, Leases
from walagent.runs.resources import Resources
from walagent.store import questions
from walagent.store.questions import ClaimedQuestion, SessionHistory
from walagent.store.sessions.connections import Pool

_LONGEST: Final = 86_400.0  # seconds; a person ends a question, not the clock


@dataclass(frozen=True, slots=True)
class AskResources:
    """Resources for answering.

    Args:
        pool: connections of the login that writes sessions, runs and steps.
        model: None: *lacking* says why; statements that are not a model's work without.
        catalog: describes what the analyst may read, with a question in mind.
        history: characters of earlier turns that are shown in full; older ones as a summary.
        lease: how long another process waits after this one was killed.
    """

    pool: Pool
    statements: Statements
    model: Model | None
    catalog: Catalog
    rows: int = 1000
    history: int = 12_000
    lease: timedelta = timedelta(seconds=10)
    lacking: PreconditionError | None = None

    @property
    def asked(self) -> Model:
        """The model.

        Raises:
            PreconditionError: there is no model.
        """
        if self.model is None:
            raise self.lacking or PreconditionError("there is no model")
        return self.model


class Question:
    """A claimed question."""

    def __init__(
        self,
        resources: AskResources,
        options: Options,
        past: SessionHistory,
        asked: ClaimedQuestion,
        session: str,
    ) -> None:
        self._resources = resources
        self._asked = asked
        self._session = session
        bounds = PromptLimits(resources.rows, resources.history, resources.statements.searches)
        self._decider = QuestionDecider(options, past, resources.catalog, bounds)

    async def answer(
        self, worker: str, on_event: Callable[[QuestionEvent], None], patience: float
    ) -> QuestionResult:
        """Work until there is an answer, or a reason why not.

        Args:
            patience: seconds that a person waits for a provider or a budget.

        Raises:
            LeaseLostError: the question was cancelled, or another process has it.
            WalagentError: it was not answered; it failed, or waits for its session to continue.
        """
        leases = Leases(self._resources.pool, worker, self._resources.lease.total_seconds())
        held = leases.active[self._asked.claim.run_id] = Held(self._asked.claim)
        attempt = RunAttempt(
            self._run_resources(patience),
            self._asked.claim,
            self._specify,
            cancelled=lambda: not held.lost,
            storing=held.store,
            watch=lambda event: self._watch(event, on_event),
        )
        held.task = asyncio.create_task(attempt.make(), name="question")
        try:
            await first_of(question=_joined(held.task), heartbeat=leases.run())
        except asyncio.CancelledError:
            if not held.lost:
                raise
        if held.lost or held.cancelled:
            raise LeaseLostError("the question was cancelled, or another process has it")
        if attempt.error is not None:
            raise attempt.error
        return self._read(attempt.steps, self._last_move(attempt.steps))

    def _run_resources(self, patience: float) -> Resources:
        actor = PlanActor(self._resources.statements, self._decider)
        kind = Kind(
            self._decider,
            actor,
            on_reply=self._keep_summary,
            on_end=self._keep_answer,
            patience=patience,
        )
        return Resources(
            self._resources.pool,
            lambda _name, _tenant: self._resources.asked,
            {"question": kind},
            budgets=Budgets(None),
        )

    @property
    def _spec(self) -> RunSpec:
        agent = AgentSpec(
            "", self._resources.asked.spec.name, limits=RunLimits(max_seconds=_LONGEST)
        )
        return RunSpec(self._asked.claim, agent, Authority(self._asked.claim.principal or ""))

    async def _specify(self) -> RunSpec:
        return self._spec

    async def _keep_summary(
        self, conn: AsyncConnection[Any], run: RunSpec, prompt: Prompt, reply: Reply
    ) -> None:
        del run
        if prompt.by == "summary" and (summary := prompts.summary_of(reply)):
            await questions.keep_summary(conn, self._session, summary, prompt.about["upto"])

    async def _keep_answer(
        self, conn: AsyncConnection[Any], run: RunSpec, steps: Sequence[Step], end: End
    ) -> None:
        del run
        outcome = self._read(steps, end)
        await questions.keep_answer(conn, self._asked.id, outcome.answer_to_json())

    def _last_move(self, steps: Sequence[Step]) -> End:
        """Give the move that ended the run: it follows from the steps."""
        move = self._decider.next_move(self._spec, steps)
        return move if isinstance(move, End) else fail("the question did not end")

    def _read(self, steps: Sequence[Step], end: End) -> QuestionResult:
        status: Status = "error" if end.state is RunState.FAILED else end.about["status"]
        text = end.reason if status == "error" else end.result or ""
        standing = self._decider.standing(steps)
        before = self._decider.said_before(steps)
        return read_outcome(self._asked, self._session, status, text, standing, steps, before)

    # Events.

    def _watch(self, event: RunEvent, on_event: Callable[[QuestionEvent], None]) -> None:
        match event:
            case Asking(prompt):
                on_event(ModelAsked(prompt.by))
            case Acting(call):
                on_event(StepStarted(step_of(call), call.about.get("candidate", 0)))
            case Recorded(step, Call() as call):
                result = StepResult.from_json(step.content)
                on_event(StepDone(result, call.about.get("candidate", 0)))
            case Recorded(step, Prompt("planner") as prompt):
                self._planned(step, prompt, on_event)
            case Recorded():
                pass

    def _planned(
        self, step: Step, prompt: Prompt, on_event: Callable[[QuestionEvent], None]
    ) -> None:
        try:
            plan = read_plan(arguments_of(step))
        except InvalidCallError:
            return
        on_event(PlanMade(plan, prompt.about.get("candidate", 0)))


async def _joined(task: asyncio.Task[None]) -> None:
    await task
