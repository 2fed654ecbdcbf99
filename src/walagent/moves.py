"""What a run may do next, and the protocols of a kind of run.

A decider chooses among five moves; the executor (`runs.executor`) carries them out, records what
happened, and asks the decider again.  Every kind of run has these moves and no others.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from walagent.message import Json, ModelSpec, Reply, Request, ToolCall
from walagent.run import RunSpec, RunState, Step, StepKind
from walagent.tool import Tool


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to the model.

    Args:
        by: which of the kind's prompts: "agent", "planner", …; recorded with the reply.
        about: what else is recorded with the reply, such as the number of a candidate.
        keep: record the request as it was sent; it does not follow from rows and steps that stay.
    """

    by: str = "agent"
    about: Mapping[str, Json] = field(default_factory=dict[str, Json])
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call to carry out.

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
    """Ask the model; several prompts are asked side by side."""

    prompts: tuple[Prompt, ...] = (Prompt(),)


@dataclass(frozen=True, slots=True)
class Act:
    """Carry calls out; several are carried out side by side."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Give the run back until a person has answered about a call.

    Args:
        until: "approval": whether it may be carried out; "review": what became of it.
    """

    until: Literal["approval", "review"]
    call: ToolCall
    tool: Tool


@dataclass(frozen=True, slots=True)
class Note:
    """Record what the model reads next: a correction, or the refusal of a call."""

    kind: StepKind
    content: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class End:
    """End the run: with a result, or with the reason why there is none."""

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
    """End a run without one."""
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
        """Write a prompt from the rows that the run is about."""
        ...


class Log(Protocol):
    """The steps of a run that is being executed.  `runs.step_log.StepLog` is the one there is."""

    @property
    def steps(self) -> Sequence[Step]:
        """What is recorded, oldest first."""
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


class Actor(Protocol):
    """Carries the calls of one kind of run out."""

    async def carry_out(self, run: RunSpec, call: Call, log: Log) -> None:
        """Carry a call out and record it.

        A tool that writes to the database records its result in the transaction of its effects.
        """
        ...


Connection = Any  # psycopg.AsyncConnection; this module knows no driver


async def _opened(run: RunSpec) -> RunSpec | End:
    return run


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of run, such as `agent` or `question`.

    Args:
        opens: looks at the run before its first move; gives it as it is to be executed, or its end.
        on_reply: stores more of a reply, in the transaction that records it.
        on_end: stores more of the end, in the transaction that ends the run.
        patience: seconds that the executor itself waits for a provider or a budget, because a
            person is waiting, before the run is given back.
    """

    decider: Decider
    actor: Actor
    opens: Callable[[RunSpec], Awaitable[RunSpec | End]] = _opened
    on_reply: Callable[[Connection, RunSpec, Prompt, Reply], Awaitable[None]] | None = None
    on_end: Callable[[Connection, RunSpec, Sequence[Step], End], Awaitable[None]] | None = None
    patience: float = 0.0


@dataclass(frozen=True, slots=True)
class Asking:
    """A model is about to be asked."""

    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Acting:
    """A call is about to be carried out."""

    call: Call


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step was recorded; `of` is what it came from."""

    step: Step
    of: Prompt | Call


Event = Asking | Acting | Recorded
