"""One question, from its words to its answer: decide, act, record, again.

`moves.next_move` decides from the recorded steps; here its moves are carried out.  Whoever asks
holds the run's lease; when this process dies, the same session goes on where it was.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal

from walagent.agent.model import Model
from walagent.agent.models.cost import cost_of
from walagent.ask import prompts
from walagent.ask.context import SchemaContext
from walagent.ask.executor import Executor
from walagent.ask.moves import (
    AskAnswer,
    AskCritic,
    AskPlanner,
    CarryOut,
    Finish,
    GiveUp,
    Standing,
    next_move,
    read_standing,
)
from walagent.ask.plan import Plan, PlanStep
from walagent.ask.results import StepResult
from walagent.engine.backoff import pause_after
from walagent.errors import (
    ConfigError,
    DatabaseLostError,
    LeaseLostError,
    ModelLimitedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
)
from walagent.message import Json, Message, Request, Text
from walagent.run import RunState, Step, StepKind
from walagent.store import questions, runs
from walagent.store.connections import Pool
from walagent.store.guard.rows import Rows
from walagent.store.questions import Asked, Turn
from walagent.store.runs import NewStep, Spent
from walagent.store.translate import translating

LONGEST: Final = 20_000  # characters of a question
LEASE: Final = timedelta(seconds=30)
_TRIES: Final = 3  # of one model call
_PATIENCE: Final = 60.0  # seconds that a person waits for a provider's limit

# After these the question waits for its session to go on.
_LATER: Final = (
    DatabaseLostError,
    ModelLimitedError,
    ModelUnavailableError,
    ModelUnauthorizedError,
)

Status = Literal["answered", "clarify", "refused", "error"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan was made."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Started:
    """A step has begun."""

    step: PlanStep


@dataclass(frozen=True, slots=True)
class Done:
    """A step has ended."""

    result: StepResult


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model is being asked: the planner, the critic, or for the answer."""

    who: str


Event = Planned | Started | Done | Thinking


@dataclass(frozen=True, slots=True)
class Options:
    """How a question is worked.

    Args:
        parallel: whether independent steps go side by side.
        critic: whether the critic looks at what is not plain.
        history: characters of earlier turns that the planner is shown.
    """

    parallel: bool = True
    critic: bool = True
    history: int = 12_000

    def to_json(self) -> dict[str, Json]:
        """Write what a later process must know to go on."""
        return {"parallel": self.parallel, "critic": self.critic}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a question, with its proof."""

    status: Status
    text: str
    session: str
    run_id: int
    plan: Plan | None = None
    results: Mapping[str, StepResult] = field(default_factory=dict[str, StepResult])
    caveats: Sequence[str] = ()
    tokens: int = 0
    cost: float | None = None

    @property
    def sql(self) -> Sequence[str]:
        """The statements that were run on the database, in the order of the plan."""
        return [each.query for each in self.results.values() if each.type == "SQL" and each.query]

    @property
    def assumptions(self) -> Sequence[str]:
        """What the planner took for granted."""
        return self.plan.assumptions if self.plan else ()

    def to_json(self) -> dict[str, Json]:
        """Write it for programs."""
        return {
            "status": self.status,
            "answer": self.text,
            "sql": list(self.sql),
            "assumptions": list(self.assumptions),
            "caveats": list(self.caveats),
            "reasoning": self.plan.reasoning if self.plan else "",
            "steps": [
                {"description": step.description, **self.results[step.id].to_json()}
                for step in (self.plan.steps if self.plan else ())
                if step.id in self.results
            ],
            "session": self.session,
            "run": self.run_id,
            "tokens": self.tokens,
            "cost": self.cost,
        }


@dataclass(frozen=True, slots=True)
class Desk:
    """What answering takes.

    Args:
        pool: connections of the login that writes sessions, runs and steps.
        schema: describes what the analyst may read, with a question in mind.
    """

    pool: Pool
    executor: Executor
    model: Model
    schema: Callable[[str], Awaitable[SchemaContext]]
    rows: int = 1000


def check_question(text: str) -> None:
    """See that there is something to answer.

    Raises:
        ConfigError: there is no question, or it is too long.
    """
    if not text.strip():
        raise ConfigError("the question is empty")
    if len(text) > LONGEST:
        raise ConfigError(f"the question has {len(text):,} characters; {LONGEST:,} are allowed")


class Asker:
    """Answers questions; one at a time for each session."""

    def __init__(self, desk: Desk, options: Options, *, name: str) -> None:
        """Take what it works with.

        Args:
            name: of this process, for the runs that it holds.
        """
        self._desk = desk
        self._options = options
        self._name = name

    async def ask(
        self, text: str, session: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Outcome:
        """Answer a question.

        Raises:
            ConfigError: there is no question, or it is too long; the session is somebody else's.
            ModelUnauthorizedError, ModelUnavailableError: there is no model to ask.
        """
        check_question(text)
        with translating():
            async with self._desk.pool.connection() as conn, conn.transaction():
                asked = await questions.begin_question(
                    conn, session, text, self._options.to_json(), self._name, LEASE
                )
        return await self._work(asked, session, on_event)

    async def resume(
        self, session: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Outcome | None:
        """Go on with the question of a session that nobody finished; None when there is none."""
        with translating():
            async with self._desk.pool.connection() as conn, conn.transaction():
                asked = await questions.resume_question(conn, session, self._name, LEASE)
        return await self._work(asked, session, on_event) if asked else None

    async def history(self, session: str) -> Sequence[str]:
        """Give the answered questions of a session, oldest first."""
        with translating():
            async with self._desk.pool.connection() as conn:
                return [turn.question for turn in await questions.turns(conn, session)]

    async def save(self, question: str, sql: str) -> None:
        """Keep a statement that a person has found right, as an example for later questions."""
        with translating():
            async with self._desk.pool.connection() as conn:
                await questions.save_query(conn, question, sql)

    async def query(self, sql: str) -> Rows:
        """Run a statement of the person's own, with the analyst's rights and limits.

        Raises:
            StatementRefusedError: it may not run.
        """
        with translating():
            return await self._desk.executor.read(sql)

    async def count_tables(self) -> int:
        """Read the schema, and count what questions can be about."""
        return len((await self._desk.schema("")).tables)

    async def _work(self, asked: Asked, session: str, on_event: Callable[[Event], None]) -> Outcome:
        with translating():
            async with self._desk.pool.connection() as conn:
                earlier = await questions.turns(conn, session)
            work = _Work(self._desk, self._options, asked, session, earlier, on_event)
            beating = asyncio.create_task(self._beat(asked), name="heartbeat")
            working = asyncio.create_task(work.run(), name="question")
            try:
                await asyncio.wait({beating, working}, return_when=asyncio.FIRST_COMPLETED)
                if not working.done():
                    beating.result()  # raises: the run is not ours any more
                return await working
            except BaseException as error:
                await self._let_go(asked, error)
                raise
            finally:
                for task in (beating, working):
                    task.cancel()
                await asyncio.gather(beating, working, return_exceptions=True)

    async def _beat(self, asked: Asked) -> None:
        """Extend the lease for as long as it is ours."""
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            async with self._desk.pool.connection() as conn:
                if await runs.heartbeat(conn, self._name, [asked.claim], LEASE):
                    raise LeaseLostError("the question was cancelled, or another process has it")

    async def _let_go(self, asked: Asked, error: BaseException) -> None:
        """Say what became of a question that was not answered.

        A turn that the person cancels is cancelled; what may work later waits for its session.
        """
        if isinstance(error, LeaseLostError):
            return
        async with asyncio.timeout(5), self._desk.pool.connection() as conn:
            if isinstance(error, _LATER):
                said = {"reason": str(error)}
                state = RunState.WAITING_RETRY
                await runs.park_run(
                    conn, asked.claim, state, refund=True, error=said, spent=Spent(0, None)
                )
                return
            cancelled = isinstance(error, asyncio.CancelledError)
            await runs.finish_run(
                conn,
                asked.claim,
                RunState.CANCELLED if cancelled else RunState.FAILED,
                result=None,
                error={"reason": "cancelled by who asked" if cancelled else str(error)},
                spent=Spent(0, None),
            )


class _Work:
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
                self._steps, parallel=self._options.parallel, critic=self._options.critic
            )
            match move:
                case AskPlanner(told):
                    await self._plan(told)
                case CarryOut(steps):
                    await self._carry_out(steps)
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
        return read_standing(self._steps)

    async def _context(self) -> SchemaContext:
        if self._schema is None:
            self._schema = await self._desk.schema(self._asked.text)
        return self._schema

    async def _plan(self, told: Sequence[tuple[Mapping[str, Json] | None, str]]) -> None:
        schema = await self._context()
        request = prompts.planner_request(
            self._asked.text, schema, self._history, told, rows=self._desk.rows
        )
        await self._ask_model("planner", request)
        if (plan := self._standing.plan) is not None:
            self._on_event(Planned(plan))

    async def _judge(self, stage: str) -> None:
        schema = await self._context()
        request = prompts.critic_request(self._asked.text, schema, self._standing, stage)
        await self._ask_model("critic", request, stage=stage)

    async def _answer(self) -> None:
        request = prompts.answer_request(self._asked.text, self._history, self._standing)
        await self._ask_model("answer", request)

    async def _carry_out(self, steps: Sequence[PlanStep]) -> None:
        """Carry steps out side by side; each is recorded as it ends."""
        results = self._standing.results

        async def carried(step: PlanStep) -> None:
            self._on_event(Started(step))
            result = await self._desk.executor.carry_out(step, results)
            await self._record(StepKind.RESULT, result.to_json())
            self._on_event(Done(result))

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
