"""The recorded steps of a run that is being executed."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from weakref import WeakMethod

from walagent.domain.run import Claim, Step, StepKind
from walagent.message import Json
from walagent.moves import ToolReply, ToolRequest
from walagent.store import runs
from walagent.store.runs import NewStep, Spent
from walagent.store.sessions.connections import Pool

Asks = Callable[[ToolRequest], Awaitable[ToolReply]]


class StepLog:
    """Implements `moves.Log`."""

    def __init__(self, pool: Pool, claim: Claim) -> None:
        self._pool = pool
        self._claim = claim
        self._steps: list[Step] = list(claim.steps)
        self._asks: WeakMethod[Asks] | None = None
        self.recording = asyncio.Lock()  # numbers are consecutive

    @property
    def steps(self) -> Sequence[Step]:
        """The recorded steps, oldest first."""
        return self._steps

    @property
    def seq(self) -> int:
        """The number of the next step."""
        return self._steps[-1].seq + 1 if self._steps else 0

    @property
    def spent(self) -> Spent:
        """Tokens and cost of all recorded steps."""
        costs = [step.cost for step in self._steps if step.cost is not None]
        return Spent(sum(step.tokens for step in self._steps), sum(costs) if costs else None)

    async def record(self, kind: StepKind, content: Mapping[str, Json]) -> Step:
        """Record a step with the next number."""
        async with self.recording:
            step = NewStep(self.seq, kind, content)
            async with self._pool.connection() as conn:
                await runs.record_step(conn, self._claim, step)
            self._steps.append(step.recorded)
        return step.recorded

    def append(self, step: Step) -> None:
        """Add a step that was recorded with its effects."""
        self._steps.append(step)

    async def ask(self, request: ToolRequest) -> ToolReply:
        """Ask the model of a tool."""
        asks = self._asks and self._asks()
        assert asks is not None  # noqa: S101 - the executor holds it
        return await asks(request)

    def ask_through(self, asks: Asks) -> None:
        """Let tools ask their models with a method whose object keeps this log.

        A ring of both would wait, with all its steps, for a collection of garbage.
        """
        self._asks = WeakMethod(asks)

    def adopt(self, steps: Sequence[Step]) -> None:
        """Take the steps that opening the run has recorded."""
        self._steps.extend(steps[len(self._steps) :])

    def with_next(self, step: Step) -> Sequence[Step]:
        """Return the steps and one that is about to be recorded."""
        return [*self._steps, step]
