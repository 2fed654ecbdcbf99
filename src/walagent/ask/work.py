"""One question in hand: decide, act, record, again.

`moves.next_move` decides from the recorded steps; here its moves are carried out.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from walagent.agent.model import Model
from walagent.agent.models.cost import cost_of
from walagent.ask import prompts
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
from walagent.engine.backoff import pause_after
from walagent.errors import ConfigError, ModelLimitedError, ModelUnavailableError
from walagent.message import Json, Message, Request, Text
from walagent.run import RunState, Step, StepKind
from walagent.store import questions, runs
from walagent.store.connections import Pool
from walagent.store.questions import Asked, Turn
from walagent.store.runs import NewStep, Spent

MOST_RETRIES: Final = 10  # each is a call of the model; what ten could not mend, a person must
_TRIES: Final = 3  # of one model call
_PATIENCE: Final = 60.0  # seconds that a person waits for a provider's limit


@dataclass(frozen=True, slots=True)
class Options:
    """How a question is worked.

    Args:
        parallel: whether independent steps go side by side.
        critic: whether the critic looks at what is not plain.
        history: characters of earlier turns that the planner is shown.
        retries: how often is planned again after a statement that failed.
        candidates: how many plans are asked for, of which one is taken.
    """

    parallel: bool = True
    critic: bool = True
    history: int = 12_000
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
    """

    pool: Pool
    executor: Executor
    model: Model
    catalog: Catalog
    rows: int = 1000


class Work:
    """One question in hand."""

    def __init__(  # noqa: PLR0913, PLR0917 - the desk, the question, and who watches
        self,
        desk: Desk,
        options: Options,
        asked: Asked,
        session: str,
        earlier: Sequence[Turn],
        on_event: Callable[[Event], None],
    ) -> None:
        self._desk = desk
        self._options = options
        self._asked = asked
        self._session = session
        self._history = _history(earlier, options.history)
        self._on_event = on_event
        self._steps: list[Step] = list(asked.claim.steps)
        self._schema: SchemaContext | None = None
        self._recording = asyncio.Lock()

    async def run(self) -> Outcome:
        """Work until there is an answer, or a reason why not."""
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

    async def _context(self) -> SchemaContext:
        if self._schema is None:
            self._schema = await self._desk.catalog.describe(self._asked.text)
        return self._schema

    async def _plan(self, told: Sequence[tuple[Mapping[str, Json] | None, str]]) -> None:
        schema = await self._context()
        request = prompts.planner_request(
            self._asked.text, schema, self._history, told, rows=self._desk.rows
        )
        await self._ask_model("planner", request)
        if (plan := self._standing.plan) is not None:
            self._on_event(Planned(plan))

    async def _plan_side_by_side(self, numbers: Sequence[int]) -> None:
        """Ask for several plans; those that come are kept, also when another one does not."""
        schema = await self._context()
        request = prompts.planner_request(
            self._asked.text, schema, self._history, (), rows=self._desk.rows
        )

        async def planned(number: int) -> None:
            await self._ask_model("planner", request, candidate=number)
            if (plan := self._standing.candidates[number].plan) is not None:
                self._on_event(Planned(plan, number))

        ends = await asyncio.gather(*map(planned, numbers), return_exceptions=True)
        if failed := [end for end in ends if end is not None]:
            raise failed[0]

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
            await self._record(StepKind.RESULT, {**result.to_json(), **whose})
            self._on_event(Done(result, candidate))

        async with asyncio.TaskGroup() as group:
            for step in steps:
                group.create_task(carried(step), name=f"step {step.id}")

    async def _ask_model(self, by: str, request: Request, **more: Json) -> None:
        """Ask and record; a reply without the tool call it was made to give has no arguments."""
        self._on_event(Thinking(by))
        model, started = self._desk.model, time.monotonic()
        reply = await _patiently(model, request)
        arguments = reply.calls[0].arguments if reply.calls else None
        cost = cost_of(reply.usage, model.spec)
        content = {"by": by, "arguments": arguments, "text": reply.text, "model": reply.model}
        await self._record(
            StepKind.REPLY,
            {**content, **more},
            usage=reply.usage,
            cost=None if cost is None else float(cost),
            duration_ms=int((time.monotonic() - started) * 1000),
        )

    async def _record(self, kind: StepKind, content: Mapping[str, Any], **more: Any) -> None:  # noqa: ANN401
        """Record a step; one after the other, so that a crash leaves no number out."""
        async with self._recording:
            seq = len(self._steps)
            if kind == StepKind.RESULT:
                content = {"call_id": f"{seq}.{content['step']}", **content}
            step = NewStep(seq, kind, content, **more)
            async with self._desk.pool.connection() as conn:
                await runs.record_step(conn, self._asked.claim, step)
            self._steps.append(step.recorded)

    async def _finish(self, status: Status, text: str) -> Outcome:
        outcome = self._outcome(status, text)
        kept = {"status", "answer", "sql", "assumptions", "caveats"}
        answer = {key: value for key, value in outcome.to_json().items() if key in kept}
        failed = status == "error"
        async with self._desk.pool.connection() as conn, conn.transaction():
            await runs.finish_run(
                conn,
                self._asked.claim,
                RunState.FAILED if failed else RunState.SUCCEEDED,
                result=None if failed else text,
                error={"reason": text} if failed else None,
                spent=Spent(outcome.tokens, outcome.cost),
            )
            await questions.keep_answer(conn, self._asked.claim.run_id, answer)
        return outcome

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
            (*said, *standing.objections, *standing.findings),
            sum(step.tokens for step in self._steps),
            None if None in costs else sum(cost for cost in costs if cost is not None),
            standing.agreement,
            self._asked.text,
        )


async def _patiently(model: Model, request: Request) -> Any:  # noqa: ANN401 - a Reply
    """Ask, and again while the provider is busy or gone, for as long as a person would wait."""
    deadline = time.monotonic() + _PATIENCE
    for attempt in range(1, _TRIES + 1):
        try:
            return await model.complete(request)
        except (ModelLimitedError, ModelUnavailableError) as error:
            wait = getattr(error, "retry_after", None) or pause_after(attempt)
            if attempt == _TRIES or time.monotonic() + wait > deadline:
                raise
            await asyncio.sleep(wait)
    raise AssertionError("a call ends with a reply or an error")


def _history(earlier: Sequence[Turn], most: int) -> Sequence[Message]:
    """Show the latest turns that fit, oldest first."""
    shown: list[Message] = []
    for turn in reversed(earlier):
        answer = "\n".join([str(turn.answer.get("answer", "")), *turn.answer.get("sql", ())])
        most -= len(turn.question) + len(answer)
        if most < 0:
            break
        shown[:0] = [
            Message("user", (Text(turn.question),)),
            Message("assistant", (Text(answer or "(no answer)"),)),
        ]
    return shown
