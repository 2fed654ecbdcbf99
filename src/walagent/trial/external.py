"""Tools that act outside the database: a trial shows their calls and does not make them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from walagent.domain.agent_spec import AgentSpec
from walagent.domain.run import Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import reply_from_json
from walagent.message import Json, ToolCall
from walagent.tools.callee import Callee
from walagent.tools.python import PythonTool, ToolContext
from walagent.tools.statements import bound

OUTSIDE: Final = frozenset({Effect.IDEMPOTENT, Effect.UNSAFE})
_ANSWER: Final = "not called: this is a trial; continue as if the call had succeeded"


def is_external(tool: Tool) -> bool:
    """Whether a call of *tool* leaves the database."""
    return tool.kind not in {"sql", "builtin"} and (tool.kind != "python" or tool.effect in OUTSIDE)


def harmless(found: Mapping[str, PythonTool]) -> dict[str, PythonTool]:
    """Replace the functions that act outside the database; their arguments are still checked."""
    return {
        target: replace(tool, function=_not_called) if tool.effect in OUTSIDE else tool
        for target, tool in found.items()
    }


@dataclass(frozen=True, slots=True)
class NotCalled:
    """A call that a real run would have made, with the arguments that the tool would have got."""

    tool: str
    arguments: Mapping[str, Json]


def calls_not_made(
    steps: Sequence[Step], agent: AgentSpec, change: Mapping[str, Any]
) -> Iterator[NotCalled]:
    """Find the calls of tools outside the database, of which an intent was recorded."""
    meant = {step.content["call_id"] for step in steps if step.kind is StepKind.INTENT}
    for step in steps:
        if step.kind is not StepKind.REPLY:
            continue
        for part in reply_from_json(step.content).parts:
            if isinstance(part, ToolCall) and part.id in meant:
                tool = agent.tool(part.name)
                if tool is not None and is_external(tool):
                    yield NotCalled(tool.name, bound(tool, part, change))


class NoCalls:
    """Servers of which no tool is called."""

    def callee(self, tool: Tool) -> Callee:  # noqa: ARG002 - the same for all
        """Return what answers instead."""
        return _NotCalled()


class _NotCalled:
    async def prepare(self) -> None:
        """Need nothing."""

    async def call(self, context: ToolContext, arguments: Mapping[str, Json]) -> object:  # noqa: ARG002 - not passed on
        """Answer without a call."""
        return _ANSWER


async def _not_called(*_: object, **__: object) -> object:
    return _ANSWER
