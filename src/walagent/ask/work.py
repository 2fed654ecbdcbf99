"""One question in hand: decide, act, record, again.

`moves.next_move` decides from the recorded steps; here its moves are carried out.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from walagent.agent.model import Model
from walagent.agent.models.cost import cost_of, worst_case
from walagent.ask import history, prompts
from walagent.ask.candidates import MOST as MOST_CANDIDATES
from walagent.ask.catalog import Catalog
from walagent.ask.context import SchemaContext
from walagent.ask.executor import Executor
from walagent.ask.moves import (
    MAX_REPLANS,
    AskAnswer,
    AskCandidates,
    AskCritic,
    AskPlanner,
    CarryOut,
    Finish,
    GiveUp,
    Standing,
    next_move,
    read_standing,
)
from walagent.ask.outcome import Done, Event, Outcome, Planned, Started, Status, Thinking
from walagent.ask.plan import PlanStep
from walagent.ask.results import scope_of
from walagent.errors import (
    BudgetExceededError,
    ConfigError,
    LimitReachedError,
    ModelLimitedError,
    ModelUnavailableError,
)
from walagent.message import Json, Message, Reply, Request
from walagent.run import RunState, Step, StepKind
from walagent.store import questions
from walagent.store.connections import Pool
from walagent.store.questions import Asked, Connection, Past
from walagent.store.runs import NewStep, Spent

MOST_RETRIES: Final = 10  # each is a call of the model; what ten could not mend, a person must
_TRIES: Final = 3  # of one model call
_PATIENCE: Final = 60.0  # seconds that a person waits for a provider's limit
_BUDGETS: Final = "walagent budgets shows what is left, and when they begin anew"


@dataclass(frozen=True, slots=True)
class Options:
    """How a question is worked.

    Args:
        parallel: whether independent steps go side by side.
        critic: whether the critic looks at what is not plain.
        retries: how often is planned again after a statement that failed.
        candidates: how many plans are asked for, of which one is taken.
    """

    parallel: bool = True
    critic: bool = True
    retries: int = MAX_REPLANS
    candidates: int = 1

    def __post_init__(self) -> None:
        """See that they make sense.

        Raises:
            ConfigError: one of them does not.
        """
        if not 0 <= self.retries <= MOST_RETRIES:
            raise ConfigError(f"retries are 0 to {MOST_RETRIES}, not {self.retries}")
        if not 1 <= self.candidates <= MOST_CANDIDATES:
            raise ConfigError(f"candidates are 1 to {MOST_CANDIDATES}, not {self.candidates}")

    def to_json(self) -> dict[str, Json]:
        """Write what a later process must know to go on."""
        return {
            "parallel": self.parallel,
            "critic": self.critic,
            "retries": self.retries,
            "candidates": self.candidates,
        }

    def with_recorded(self, document: Mapping[str, Json]) -> "Options":
        """Give those that a question was asked with; what is not recorded stays as it is here."""
        known = self.to_json().keys() & document.keys()
        return replace(self, **{name: document[name] for name in known})


@dataclass(frozen=True, slots=True)
class Desk:
    """What answering takes.

    Args:
        pool: connections of the login that writes sessions, runs and steps.
        catalog: describes what the analyst may read, with a question in mind.
        history: characters of earlier turns that are told as they were; older ones in summary.
    """

    pool: Pool
    executor: Executor
    model: Model
    catalog: Catalog
    rows: int = 1000
    history: int = 12_000


class Work:
    """One question in hand."""

    def __init__(  # noqa: PLR0913, PLR0917 - the desk, the question, and who watches
        self,
        desk: Desk,
        options: Options,
        asked: Asked,
        session: str,
        past: Past,
        on_event: Callable[[Event], None],
    ) -> None:
        self._desk = desk
        self._options = options
        self._asked = asked
        self._session = session
        self._past = past
        self._marker = secrets.token_hex(8)  # of what is data in what is asked
        self._on_event = on_event
        self._steps: list[Step] = list(asked.claim.steps)
        self._schema: SchemaContext | None = None
        self._recording = asyncio.Lock()

    async def run(self) -> Outcome:
        """Work until there is an answer, or a reason why not."""
        await self._summarise()
        while True:
            move = next_move(
                self._steps,
                parallel=self._options.parallel,
                critic=self._options.critic,
                replans=self._options.retries,
                candidates=self._options.candidates,
            )
            match move:
                case AskPlanner(told):
                    await self._plan(told)
                case AskCandidates(numbers):
                    await self._plan_side_by_side(numbers)
                case CarryOut(steps, candidate):
                    await self._carry_out(steps, candidate)
                case AskCritic(stage):
                    await self._judge(stage)
                case AskAnswer():
                    await self._answer()
                case Finish(status, text):
                    return await self._finish(status, text)
                case GiveUp(reason):
                    return await self._finish("error", reason)

    @property
    def _standing(self) -> Standing:
        options = self._options
        return read_standing(self._steps, replans=options.retries, candidates=options.candidates)

    @property
    def _history(self) -> Sequence[Message]:
        return history.messages(self._past, self._desk.history)

    async def _summarise(self) -> None:
        """Sum up the turns that are too many to be told as they were; kept for all later questions.

        Where the model finds no words, the oldest turns are not told this time.
        """
        while old := history.too_old(self._past, self._desk.history):
            request = prompts.summary_request(self._past.summary, map(history.told, old))
            upto = old[-1].id

            async def keep(conn: Connection, reply: Reply, upto: int = upto) -> None:
                if summary := prompts.summary_of(reply):
                    await questions.keep_summary(conn, self._session, summary, upto)

            reply = await self._ask_model("summary", request, also=keep, upto=upto)
            if not (summary := prompts.summary_of(reply)):
                return
            self._past = Past(summary, self._past.turns[len(old) :])

    async def _context(self) -> SchemaContext:
        if self._schema is None:
            self._schema = await self._desk.catalog.describe(self._asked.text)
        return self._schema

    async def _plan(self, told: Sequence[tuple[Mapping[str, Json] | None, str]]) -> None:
        await self._ask_model("planner", await self._planner_request(told))
        if (plan := self._standing.plan) is not None:
            self._on_event(Planned(plan))

    async def _plan_side_by_side(self, numbers: Sequence[int]) -> None:
        """Ask for several plans; those that come are kept, also when another one does not."""
        request = await self._planner_request(())

        async def planned(number: int) -> None:
            await self._ask_model("planner", request, candidate=number)
            if (plan := self._standing.candidates[number].plan) is not None:
                self._on_event(Planned(plan, number))

        ends = await asyncio.gather(*map(planned, numbers), return_exceptions=True)
        if failed := [end for end in ends if end is not None]:
            raise failed[0]

    async def _planner_request(
        self, told: Sequence[tuple[Mapping[str, Json] | None, str]]
    ) -> Request:
        return prompts.planner_request(
            self._asked.text,
            await self._context(),
            self._history,
            told,
            rows=self._desk.rows,
            marker=self._marker,
            search=self._desk.executor.searches,
        )

    async def _judge(self, stage: str) -> None:
        schema = await self._context()
        request = prompts.critic_request(self._asked.text, schema, self._standing, stage)
        await self._ask_model("critic", request, stage=stage)

    async def _answer(self) -> None:
        request = prompts.answer_request(self._asked.text, self._history, self._standing)
        await self._ask_model("answer", request)

    async def _carry_out(self, steps: Sequence[PlanStep], candidate: int) -> None:
        """Carry steps out side by side; each is recorded as it ends."""
        standing = self._standing
        results = standing.candidates[candidate].results if candidate else standing.results
        whose: dict[str, Json] = {"candidate": candidate} if candidate else {}

        async def carried(step: PlanStep) -> None:
            self._on_event(Started(step, candidate))
            result = await self._desk.executor.carry_out(step, results)
            await self._record(NewStep(0, StepKind.RESULT, {**result.to_json(), **whose}))
            self._on_event(Done(result, candidate))

        async with asyncio.TaskGroup() as group:
            for step in steps:
                group.create_task(carried(step), name=f"step {step.id}")

    async def _ask_model(
        self,
        by: str,
        request: Request,
        *,
        also: Callable[[Connection, Reply], Awaitable[None]] | None = None,
        **more: Json,
    ) -> Reply:
        """Ask and record; a reply without the tool call it was made to give has no arguments.

        Args:
            also: what is to be kept of the reply in the transaction that records it.
        """
        self._on_event(Thinking(by))
        model, started = self._desk.model, time.monotonic()
        call = await self._reserve(request)
        reply = await _patiently(model, request)
        arguments = reply.calls[0].arguments if reply.calls else None
        cost = cost_of(reply.usage, model.spec)
        content = {"by": by, "arguments": arguments, "text": reply.text, "model": reply.model}
        step = NewStep(
            0,
            StepKind.REPLY,
            {**content, **more},
            reply.usage,
            None if cost is None else float(cost),
            int((time.monotonic() - started) * 1000),
        )
        await self._record(step, call, None if also is None else lambda conn: also(conn, reply))
        return reply

    async def _reserve(self, request: Request) -> int:
        """Reserve what a call can take at most, in the budgets that count it; give its number.

        What only other calls hold comes back within seconds, so a person waits for it.

        Raises:
            BudgetExceededError: a budget does not allow the call now.
            LimitReachedError: nor later.
        """
        spec = self._desk.model.spec
        tokens, cost = worst_case(request, spec)
        deadline = time.monotonic() + _PATIENCE
        while True:
            async with self._desk.pool.connection() as conn:
                call, refusal = await questions.reserve(
                    conn, self._asked.claim, spec.name, tokens, cost
                )
            if refusal is None:
                return call
            if refusal.wait is None:
                raise LimitReachedError(refusal.reason, hint=_BUDGETS)
            if time.monotonic() + refusal.wait > deadline:
                raise BudgetExceededError(refusal.reason, refusal=refusal.raw, hint=_BUDGETS)
            await asyncio.sleep(refusal.wait)

    async def _record(
        self,
        step: NewStep,
        call: int | None = None,
        also: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        """Record a step; one after the other, so that a crash leaves no number out."""
        async with self._recording:
            seq = len(self._steps)
            content = step.content
            if step.kind == StepKind.RESULT:
                content = {"call_id": f"{seq}.{content['step']}", **content}
            step = replace(step, seq=seq, content=content)
            async with self._desk.pool.connection() as conn, conn.transaction():
                await questions.record_step(conn, self._asked.claim, step, call)
                if also is not None:
                    await also(conn)
            self._steps.append(step.recorded)

    async def _finish(self, status: Status, text: str) -> Outcome:
        outcome = self._outcome(status, text)
        kept = {"status", "answer", "sql", "assumptions", "caveats", "scope"}
        answer = {key: value for key, value in outcome.to_json().items() if key in kept}
        failed = status == "error"
        answer["results"] = [
            {"id": f"{outcome.run_id}.{name}", "rows": len(each.rows), "columns": each.rows.names}
            for name, each in outcome.results.items()
        ]
        async with self._desk.pool.connection() as conn:
            await questions.end_question(
                conn,
                self._asked.claim,
                RunState.FAILED if failed else RunState.SUCCEEDED,
                Spent(outcome.tokens, outcome.cost),
                result=None if failed else text,
                reason=text if failed else None,
                answer=answer,
            )
        return outcome

    @property
    def spent(self) -> Spent:
        """Tokens and cost of all recorded steps."""
        costs = [step.cost for step in self._steps if step.cost is not None]
        return Spent(sum(step.tokens for step in self._steps), sum(costs) if costs else None)

    @property
    def begun(self) -> bool:
        """Whether something is recorded, so that it is worth going on later."""
        return bool(self._steps)

    def _outcome(self, status: Status, text: str) -> Outcome:
        standing = self._standing
        costs = [step.cost for step in self._steps if step.kind == StepKind.REPLY]
        said: Sequence[str] = (standing.answer or {}).get("caveats") or ()
        return Outcome(
            status,
            text,
            self._session,
            self._asked.claim.run_id,
            standing.plan,
            standing.results,
            (*said, *standing.objections, *standing.findings, *scope_of(standing.results)),
            sum(step.tokens for step in self._steps),
            None if None in costs else sum(cost for cost in costs if cost is not None),
            standing.agreement,
            self._asked.text,
        )


async def _patiently(model: Model, request: Request) -> Reply:
    """Ask, and again while the provider is busy or gone, for as long as a person would wait."""
    deadline = time.monotonic() + _PATIENCE
    for attempt in range(1, _TRIES + 1):
        try:
            return await model.complete(request)
        except (ModelLimitedError, ModelUnavailableError) as error:
            wait = getattr(error, "retry_after", None) or _pause(attempt)
            if attempt == _TRIES or time.monotonic() + wait > deadline:
                raise
            await asyncio.sleep(wait)
    raise AssertionError("a call ends with a reply or an error")


def _pause(attempt: int) -> float:
    from walagent.runs.backoff import pause_after  # noqa: PLC0415 - tenacity takes 20 ms

    return pause_after(attempt)
