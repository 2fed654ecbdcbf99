"""Workflows as runs execute them: nodes, edges, and where a run is.  Pure.

A run is at its last checkpoint, a recorded step that names the next node and the state; the steps
after it are those of this node.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, cast

import orjson

from walagent.domain.run import RunSpec, Step, StepKind
from walagent.message import Json

NEXT: Final = "next"  # the call that records a checkpoint
END: Final = "__end__"
_HOLE: Final = re.compile(r"\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}")

State = Mapping[str, Json]
Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """A subgraph that is being executed: its node, and the state outside."""

    node: str
    state: State

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read one back."""
        return cls(raw["node"], raw["state"])

    def to_json(self) -> dict[str, Json]:
        """Write it as part of a checkpoint."""
        return {"node": self.node, "state": dict(self.state)}


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge; it applies if its condition is true.

    Args:
        uses: what of users the condition calls, as agent_internal.names_used_by() returns it.
    """

    to: str
    condition: str | None = None
    label: str = ""
    uses: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run is.

    Args:
        number: of the checkpoint; each node that is entered has the next.
        node: the node to execute; None: the workflow has ended.
        policy: what the policies decided about entering the node.
        steps: that were recorded since.
    """

    number: int
    node: str | None
    state: State
    frames: tuple[Frame, ...] = ()
    policy: Mapping[str, Json] | None = None
    steps: Sequence[Step] = ()


def position_of(steps: Sequence[Step]) -> Position | None:
    """Say where a run is; None: it has not begun."""
    at = next((n for n in reversed(range(len(steps))) if is_checkpoint(steps[n])), None)
    if at is None:
        return None
    raw: Mapping[str, Any] = steps[at].content["workflow"]
    frames = tuple(Frame.from_json(frame) for frame in raw["frames"])
    after = tuple(steps[at + 1 :])
    return Position(raw["number"], raw["node"], raw["state"], frames, raw.get("policy"), after)


def is_checkpoint(step: Step) -> bool:
    """Whether a step is a checkpoint."""
    return step.kind is StepKind.RESULT and "workflow" in step.content


def definition_of(run: RunSpec) -> Definition:
    """Return the version of the workflow that a run executes."""
    if run.workflow is None:
        raise LookupError(f"run {run.run_id} executes no workflow")
    return run.workflow


def inner(definition: Definition, frames: Sequence[Frame]) -> Definition:
    """Return the definition in which a run is: that of its innermost subgraph."""
    for frame in frames:
        definition = definition["nodes"][frame.node]["workflow"]
    return definition


def edges_from(definition: Definition, node: str) -> list[Edge]:
    """Return the edges from a node, in the order in which they are asked."""
    return [
        Edge(raw["to"], raw.get("condition"), raw.get("label", ""), raw.get("uses", ()))
        for raw in definition["edges"].get(node, ())
    ]


def with_result(state: State, node: Mapping[str, Any], name: str, value: Json) -> dict[str, Json]:
    """Merge the result of a node into the state: under its name, or what `output` says.

    A function returns the keys to change.
    """
    if node["kind"] == "function" and "output" not in node and isinstance(value, dict):
        return {**state, **cast("dict[str, Json]", value)}
    return {**state, str(node.get("output") or name): value}


def looked_up(state: State, path: str) -> Json:
    """Return the value at a path such as `ticket.lines.0`; None: there is none."""
    value: Json = dict(state)
    for part in path.split("."):
        match value:
            case dict():
                value = cast("dict[str, Json]", value).get(part)
            case list() if part.isdigit():
                value = next(iter(cast("list[Json]", value)[int(part) :]), None)
            case _:
                return None
    return value


def as_text(value: Json) -> str:
    """Write a value for a text: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def filled(template: Json, state: State) -> Json:
    """Fill the placeholders of arguments in.

    A text that is one placeholder becomes the value itself; in others, values are inserted as text.
    """
    if isinstance(template, str):
        whole = _HOLE.fullmatch(template)
        return looked_up(state, whole[1]) if whole else filled_text(template, state)
    if isinstance(template, dict):
        fields = cast("dict[str, Json]", template)
        return {key: filled(value, state) for key, value in fields.items()}
    if isinstance(template, list):
        return [filled(value, state) for value in cast("list[Json]", template)]
    return template


def filled_text(template: str, state: State) -> str:
    """Fill the placeholders of a text for people in."""
    return _HOLE.sub(lambda hole: as_text(looked_up(state, hole[1])), template)


def placeholders(template: str) -> list[str]:
    """Return what a template consists of: text, path, text, …, text."""
    return _HOLE.split(template)
