"""The agent, authority and table of a run: everything that it needs besides its change.

All values are frozen: a run keeps the version with which it started.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from walagent.domain.cascade import Stage, stages_of
from walagent.domain.change import Relation
from walagent.domain.tool_spec import Tool
from walagent.message import Example, Json


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run; None: no limit."""

    max_steps: int = 20  # replies of the model
    max_tokens: int | None = None
    max_cost: float | None = None  # US dollars
    max_seconds: float = 600.0  # of one attempt
    max_output_tokens: int | None = None  # of one reply
    max_corrections: int = 2  # times that a wrong reply goes back to the model before the run fails

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.define()."""
        return cls(
            raw["max_steps"],
            raw["max_tokens"],
            None if raw["max_cost"] is None else float(raw["max_cost"]),
            raw["max_seconds"],
            raw["max_output_tokens"],
        )


class Finish(StrEnum):
    """When a run ends."""

    ANSWER = "answer"  # with an answer in words
    AFTER_CALL = "after_call"  # when all calls of a reply have succeeded


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Model, prompt, tools and limits of an agent, as one version."""

    name: str
    model: str
    system_prompt: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    examples: tuple[Example, ...] = ()
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    limits: RunLimits = RunLimits()
    finish: Finish = Finish.ANSWER
    rates: Mapping[str, int] = field(default_factory=dict[str, int])  # calls per minute, by counter
    thinking_visible: bool = True
    pause_after_tool: bool = False
    reuse: float = 0.0  # seconds within which equal first calls share a reply; 0: none do
    rows_per_request: int = 1  # runs whose first calls may be one request
    tier: str = ""  # of its calls: "flex"; "": the standard one
    fallback: str = ""  # the model to ask if the first is out; "": none
    fallback_parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    stages: tuple[Stage, ...] = ()  # models that are asked before `model`, in order
    control: float = 0.0  # share of the runs decided by a stage of which `model` is asked, too

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.define()."""
        return cls(
            name=raw["agent"],
            model=raw["model"],
            system_prompt=raw["system_prompt"],
            tools=tuple(Tool.from_json(tool) for tool in raw["tools"]),
            tool_choice=raw["tool_choice"],
            examples=tuple(_example(example) for example in raw["examples"]),
            parameters=raw["parameters"],
            limits=RunLimits.from_json(raw),
            finish=Finish(raw.get("finish", Finish.ANSWER)),
            rates=dict(_rates(raw)),
            thinking_visible=raw.get("thinking_visible", True),
            pause_after_tool=raw.get("pause_after_tool", False),
            reuse=float(raw.get("reuse_seconds") or 0),
            rows_per_request=raw.get("rows_per_request") or 1,
            tier=raw["tier"] if raw.get("tier", "standard") != "standard" else "",
            fallback=raw.get("fallback") or "",
            fallback_parameters=raw.get("fallback_parameters") or {},
            stages=stages_of(raw),
            control=float(raw.get("control") or 0),
        )

    @property
    def bound(self) -> frozenset[str]:
        """Return the columns that are bound to arguments of tools."""
        return frozenset(column for tool in self.tools for column in tool.bind.values())

    def tool(self, name: str) -> Tool | None:
        """Return the tool with the name that the model uses."""
        return next((tool for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True, slots=True)
class Authority:
    """The role of a run, and how long its approvals stay open."""

    run_as: str  # the role of tools and conditions
    search_path: str = ""  # for unqualified names inside tools
    approval_seconds: float = 604_800.0

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.define()."""
        return cls(raw["run_as"], raw.get("search_path", ""), float(raw["approval_seconds"]))


@dataclass(frozen=True, slots=True)
class Target:
    """The table of an attachment, as of its version."""

    relation_oid: int
    schema: str
    table: str
    key_columns: tuple[str, ...]
    columns: frozenset[str] | None = None  # visible to the agent; None: all
    json_columns: Mapping[str, str] = field(default_factory=dict[str, str])  # to json or jsonb
    writes: tuple[str, ...] = ()  # that update_row can write
    only_unchanged: bool = False  # update_row compares the row with what was shown
    embedded: tuple[str, ...] = ()  # columns whose embedding is written, in order; (): none is

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.define()."""
        return cls(
            relation_oid=raw["relation_oid"],
            schema=raw["schema"],
            table=raw["table"],
            key_columns=tuple(raw["key_columns"]),
            columns=None if raw["columns"] is None else frozenset(raw["columns"]),
            json_columns=raw.get("json_columns", {}),
            writes=tuple(raw["writes"]),
            only_unchanged=raw.get("only_unchanged", False),
            embedded=_embedded(raw),
        )

    @property
    def relation(self) -> tuple[str, str]:
        """Return schema and table."""
        return (self.schema, self.table)

    def as_relation(self) -> Relation:
        """Return the table in the form that changes use."""
        return Relation(self.relation_oid, self.schema, self.table)


def keeps_columns(agent: AgentSpec, target: Target) -> bool:
    """Return whether all that an agent does is to write what follows from the row as it is."""
    return target.only_unchanged and all(
        tool.kind == "builtin" and tool.target in {"update_row", "do_nothing"}
        for tool in agent.tools
    )


def _embedded(raw: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(raw["columns"]) if raw.get("embeds") else ()


def _rates(raw: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    if limit := raw.get("requests_per_minute"):
        yield f"agent {raw['agent']}", limit
    if limit := raw.get("persona_requests_per_minute"):
        yield f"persona {raw['persona']}", limit


def _example(raw: Mapping[str, Any]) -> Example:
    return Example(raw["text"], raw["tool"], raw.get("arguments", {}))
