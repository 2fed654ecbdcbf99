"""Tools that act outside the database: a trial shows their calls and does not make them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from walagent.domain.agent_spec import AgentSpec
from walagent.domain.run import Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import reply_from_json
from walagent.errors import ToolFailedError
from walagent.message import Json, ToolCall
from walagent.runs.tools.builtin_tools import OUTSIDE as BUILTINS
from walagent.runs.tools.builtin_tools import NamedEmbedder, Services, TenantOf
from walagent.tools.callee import Callee
from walagent.tools.python import PythonTool, ToolContext
from walagent.tools.statements import bound

OUTSIDE: Final = frozenset({Effect.IDEMPOTENT, Effect.UNSAFE})
_ANSWER: Final = "not called: this is a trial; continue as if the call had succeeded"


def is_external(tool: Tool) -> bool:
    """Whether a call of *tool* leaves the database; one that is a model is called."""
    inside = {"sql", "builtin", "llm"}
    return tool.kind not in inside and (tool.kind != "python" or tool.effect in OUTSIDE)


def leaves(tool: Tool) -> bool:
    """Whether a call of *tool* leaves the database, or reads outside it, as files and the web."""
    return is_external(tool) or (tool.kind == "builtin" and tool.target in BUILTINS)


def harmless(found: Mapping[str, PythonTool]) -> dict[str, PythonTool]:
    """Replace the functions that act outside the database; their arguments are still checked."""
    return {
        target: replace(tool, function=_not_called) if tool.effect in OUTSIDE else tool
        for target, tool in found.items()
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call outside the database returned, in the run that made it."""

    text: str
    is_error: bool


class RecordedCalls:
    """Answers calls outside the database as they were answered before: none is made.

    A call is the same if its tool and its arguments are equal, those that are bound to the row
    included.
    """

    def __init__(self) -> None:
        """Begin without a recording; see `play`."""
        self._answers: dict[str, list[Answer]] = {}
        self.missed: list[NotCalled] = []

    def play(self, recorded: Iterable[tuple[str, Mapping[str, Json], Answer]]) -> None:
        """Answer from the calls of one run: target, arguments, answer; in their order."""
        self._answers, self.missed = {}, []
        for target, arguments, answer in recorded:
            self._answers.setdefault(_same(target, arguments), []).append(answer)

    def harmless(self, found: Mapping[str, PythonTool]) -> dict[str, PythonTool]:
        """Replace the functions that act outside the database; their arguments are checked."""
        return {
            target: _Function(
                _not_called, tool.name, tool.description, tool.input_schema, tool.effect,
                tool.arguments, tool.target, self,
            )
            if tool.effect in OUTSIDE
            else tool
            for target, tool in found.items()
        }  # fmt: skip

    def callee(self, tool: Tool) -> Callee:
        """Return what answers instead of *tool*."""
        return _Recorded(self, tool)

    def services(self, embedder: NamedEmbedder | None) -> Services:
        """Answer instead of built-in tools that act outside the database."""
        return _Services(embedder, calls=self)

    def answer(self, name: str, target: str, arguments: Mapping[str, Json]) -> str:
        """Answer a call; one that was answered twice differently is answered in that order.

        Raises:
            ToolFailedError: it failed then.
        """
        answers = self._answers.get(_same(target, arguments))
        if not answers:
            self.missed.append(NotCalled(name, dict(arguments)))
            return _ANSWER
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if found.is_error:
            raise ToolFailedError(found.text)
        return found.text


def _same(target: str, arguments: Mapping[str, Json]) -> str:
    sorted_ = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    return orjson.dumps([target, arguments], option=sorted_, default=str).decode()


@dataclass(frozen=True, slots=True)
class _Recorded:
    calls: RecordedCalls
    tool: Tool

    async def prepare(self) -> None:
        """Need nothing."""

    async def call(self, context: ToolContext, arguments: Mapping[str, Json]) -> object:  # noqa: ARG002 - not passed on
        """Answer as it was answered before."""
        return self.calls.answer(self.tool.name, self.tool.target, arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Services(Services):
    calls: RecordedCalls

    def callee(self, tool: Tool, tenant_of: TenantOf) -> Callee:  # noqa: ARG002 - not passed on
        """Return what answers instead of *tool*."""
        return self.calls.callee(tool)


@dataclass(frozen=True, slots=True)
class _Function(PythonTool):
    calls: RecordedCalls

    async def call(self, context: ToolContext, arguments: Mapping[str, Json]) -> object:
        """Check the arguments, and answer as they were answered before."""
        await PythonTool.call(self, context, arguments)
        return self.calls.answer(self.name, self.target, arguments)


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
