"""The moves of a run, and the protocols of a kind of run.

A decider chooses one of five moves; the executor (`runs.executor`) carries it out, records the
steps, and calls the decider again.  All kinds of runs have the same moves.

Public: what is exported here keeps its meaning between releases.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from walagent.domain.run import Claim, RunSpec, RunState, Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.message import Json, ModelSpec, Reply, Request, ToolCall, Usage

__all__ = [
    "Act",
    "Actor",
    "Ask",
    "Call",
    "Claim",
    "Decider",
    "Effect",
    "End",
    "Kind",
    "Move",
    "Note",
    "Prompt",
    "Reply",
    "Request",
    "RunLog",
    "RunSpec",
    "RunState",
    "Step",
    "StepKind",
    "Tool",
    "ToolCall",
    "Wait",
    "fail",
    "succeed",
]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to the model.

    Args:
        by: the name of the prompt within its kind: "agent", "planner", …; recorded with the reply.
        about: what else is recorded with the reply, such as the number of a candidate.
        keep: record the request as sent, because it cannot be rendered again from rows and steps.
        model: the model to call; "": that of the run's agent.
        fallback: the model to call instead if it is out; "": none.
        tier: the tier to ask for; "": the standard one, which is asked instead of another.
        next_model: the model of a cascade to call after this one, if it is out or not sure; "":
            none.
        alone: not in a request with the rows of other runs.
    """

    by: str = "agent"
    about: Mapping[str, Json] = field(default_factory=dict[str, Json])
    keep: bool = False
    model: str = ""
    fallback: str = ""
    tier: str = ""
    next_model: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call to execute.

    Args:
        again: an attempt was started before, and its outcome is unknown.
        about: what else is recorded with the result.
    """

    call: ToolCall
    tool: Tool
    again: bool = False
    about: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Ask:
    """Call the model; several prompts are sent concurrently."""

    prompts: tuple[Prompt, ...] = (Prompt(),)


@dataclass(frozen=True, slots=True)
class Act:
    """Execute tool calls; several are executed concurrently."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Release the run until a person has decided about a call.

    Args:
        until: "approval": whether it may be executed; "review": what its unknown outcome was.
        seconds: how long an approval stays open; None: as the run's authority says.
    """

    until: Literal["approval", "review"]
    call: ToolCall
    tool: Tool
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Record a message to the model: a correction, or the rejection of a call."""

    kind: StepKind
    content: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class End:
    """End the run with a result, or with the reason why there is none."""

    state: RunState
    result: str | None = None
    reason: str = ""
    sqlstate: str | None = None
    about: Mapping[str, Json] = field(default_factory=dict[str, Json])  # for the kind's own record

    @property
    def error(self) -> dict[str, Json] | None:
        """What is recorded as the run's error."""
        if not self.reason:
            return None
        return {"reason": self.reason} | ({"sqlstate": self.sqlstate} if self.sqlstate else {})


Move = Ask | Act | Wait | Note | End


def succeed(result: str) -> End:
    """End a run with a result."""
    return End(RunState.SUCCEEDED, result)


def fail(reason: str) -> End:
    """End a run as failed."""
    return End(RunState.FAILED, reason=reason)


class Decider(Protocol):
    """Decides for one kind of run."""

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Decide from the recorded steps.

        Pure: the same steps give the same move, in any process, after any crash.
        """
        ...

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Build the request of a prompt from the rows that the run concerns."""
        ...


class AsksNoModel:
    """Part of a decider whose moves have no prompts."""

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Fail: there is no prompt that this could be called for."""
        del steps, prompt, model
        raise AssertionError(f"a run of kind {run.claim.kind} asks no model")


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """What a tool of kind llm asks.

    Args:
        model: its name; empty: that of the agent.
        text: all that the model sees, beside *system*.
        number: of the step that will have the answer.
    """

    model: str
    system: str
    text: str
    max_tokens: int
    timeout: float
    number: int


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What the model answered, and what that used.

    Args:
        model: its name in agent.model.
        reserved: whether budgets have a reservation for it.
    """

    text: str
    model: str
    usage: Usage
    cost: float | None
    duration_ms: int
    reserved: bool


class RunLog(Protocol):
    """The steps of a run during its execution."""

    @property
    def steps(self) -> Sequence[Step]:
        """The recorded steps, oldest first."""
        ...

    @property
    def seq(self) -> int:
        """The number of the next step."""
        ...

    async def record(self, kind: StepKind, content: Mapping[str, Json]) -> Step:
        """Record a step with the next number."""
        ...

    def append(self, step: Step) -> None:
        """Add a step that is recorded already, in the transaction of its effects."""
        ...

    async def ask(self, request: ToolRequest) -> ToolReply:
        """Ask the model of a tool, within the limits and budgets of the run.

        Raises: as a call of the run's own model.
        """
        ...


class Actor(Protocol):
    """Executes the tool calls of one kind of run."""

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Execute a call and record its result in *log*.

        The result of a tool that writes to the database is recorded in the same transaction.
        """
        ...


Connection = Any  # psycopg.AsyncConnection; this module imports no driver


async def _opened(run: RunSpec) -> RunSpec | End:
    return run


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of run, such as `agent` or `question`.

    Args:
        specify: builds what is executed of a claim; None: as the run's attachment defines it.
        opens: prepares the run before its first move; returns the run to execute, or its end.
        on_reply: stores more of a reply, in the transaction that records it.
        on_end: stores more of the end, in the transaction that ends the run.
        takes_in: records what has happened since the last step that the model is shown; returns
            whether there was something.  Called before the model is.
        unwanted: returns as soon as the reply that the model writes is not wanted any more.
        on_cut: stores what was said of such a reply, in the transaction that records it.
        patience: seconds that the executor waits for a provider or a budget before it releases
            the run; for kinds of which a person awaits the result.
    """

    decider: Decider
    actor: Actor
    specify: Callable[[Claim], Awaitable[RunSpec]] | None = None
    opens: Callable[[RunSpec], Awaitable[RunSpec | End]] = _opened
    on_reply: Callable[[Connection, RunSpec, Prompt, Reply], Awaitable[None]] | None = None
    on_end: Callable[[Connection, RunSpec, Sequence[Step], End], Awaitable[None]] | None = None
    takes_in: "Callable[[RunSpec, RunLog], Awaitable[bool]] | None" = None
    unwanted: Callable[[RunSpec, Sequence[Step]], Awaitable[None]] | None = None
    on_cut: Callable[[Connection, RunSpec, str], Awaitable[None]] | None = None
    patience: float = 0.0


@dataclass(frozen=True, slots=True)
class Asking:
    """The model is about to be called."""

    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Acting:
    """A tool call is about to be executed."""

    call: Call


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step was recorded; `of` is its cause."""

    step: Step
    of: Prompt | Call


RunEvent = Asking | Acting | Recorded
