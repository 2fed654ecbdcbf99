"""An agent on a table, as the database froze it: what is matched, and what a run may do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from walagent.change import Op
from walagent.message import Example, Json, ToolSpec

_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def is_tool_name(name: str) -> bool:
    """Whether a model may know a tool by this name: providers take nothing else."""
    return _TOOL_NAME.fullmatch(name) is not None


def mcp_tool_name(server: str, tool: str) -> str:
    """Name a tool of an MCP server: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", f"{server}__{tool}")


class Effect(StrEnum):
    """How a tool reaches "exactly once"."""

    READ = "read"  # changes nothing; again is free
    TRANSACTIONAL = "transactional"  # commits with its step
    IDEMPOTENT = "idempotent"  # leaves the database; again with the same key is harmless
    UNSAFE = "unsafe"  # leaves the database; at most once, an unknown outcome goes to a person


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of an attachment.  `bind` maps arguments that the model does not see to columns."""

    name: str
    kind: str  # sql | python | mcp | builtin
    target: str
    description: str
    input_schema: Mapping[str, Json]
    effect: Effect
    timeout: float = 30.0  # seconds
    approval: bool = False
    bind: Mapping[str, str] = field(default_factory=dict[str, str])
    schema: str = ""  # kind sql: where the function is, its name and its arguments (name, type)
    function: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    returns_set: bool = False
    fingerprint: str = ""  # kind mcp: of what a person has accepted
    role: str = ""  # builtin query: with whose rights it reads

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read what agent_internal.resolve_tool() wrote."""
        return cls(
            name=raw["name"],
            kind=raw["kind"],
            target=raw["target"],
            description=raw.get("description", ""),
            input_schema=raw["input_schema"],
            effect=Effect(raw["effect"]),
            timeout=float(raw["timeout"]),
            approval=raw["approval"],
            bind=raw["bind"],
            schema=raw.get("schema", ""),
            function=raw.get("function", ""),
            arguments=tuple((a["name"], a["type"]) for a in raw.get("arguments", ())),
            returns_set=raw.get("returns_set", False),
            fingerprint=raw.get("fingerprint", ""),
            role=raw.get("role", ""),
        )

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return ToolSpec(self.name, self.description or self.name, self.input_schema)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use up; None: no limit."""

    max_steps: int = 20  # replies of the model
    max_tokens: int | None = None
    max_cost: float | None = None  # US dollars
    max_seconds: float = 600.0  # of one attempt
    max_output_tokens: int | None = None  # of one reply


@dataclass(frozen=True, slots=True)
class Attachment:
    """One version of an attachment, complete: the agent, its tools and its limits included."""

    id: int
    version: int
    name: str
    agent: str
    relation_oid: int
    schema: str
    table: str
    ops: frozenset[Op]
    key_columns: tuple[str, ...]
    run_as: str
    model: str
    search_path: str = ""  # where names inside tools are looked up
    condition: str | None = None
    condition_columns: tuple[str, ...] = ()
    old_columns: tuple[str, ...] = ()  # that the condition reads of the old row, and the WAL had
    whole_row: bool = False  # whether the condition reads new or old as a whole
    columns: frozenset[str] | None = None
    json_columns: Mapping[str, str] = field(default_factory=dict[str, str])  # to json or jsonb
    writes: tuple[str, ...] = ()
    ordering_key: tuple[str, ...] | None = None
    debounce: float | None = None  # seconds
    cap: int | None = None  # runs at the same time
    max_depth: int = 3
    max_attempts: int = 5
    backfill: bool = False
    system_prompt: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    examples: tuple[Example, ...] = ()
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    limits: Limits = Limits()
    approval_seconds: float = 604_800.0

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read what agent_internal.define() wrote."""
        return cls(
            id=raw["id"],
            version=raw["version"],
            name=raw["name"],
            agent=raw["agent"],
            relation_oid=raw["relation_oid"],
            schema=raw["schema"],
            table=raw["table"],
            ops=frozenset(Op(op) for op in raw["ops"]),
            key_columns=tuple(raw["key_columns"]),
            run_as=raw["run_as"],
            model=raw["model"],
            search_path=raw.get("search_path", ""),
            condition=raw["condition"],
            condition_columns=tuple(raw["condition_columns"]),
            old_columns=tuple(raw.get("old_columns", ())),
            whole_row=raw.get("whole_row", False),
            columns=None if raw["columns"] is None else frozenset(raw["columns"]),
            json_columns=raw.get("json_columns", {}),
            writes=tuple(raw["writes"]),
            ordering_key=None if raw["ordering_key"] is None else tuple(raw["ordering_key"]),
            debounce=None if raw["debounce_seconds"] is None else float(raw["debounce_seconds"]),
            cap=raw["cap"],
            max_depth=raw["max_depth"],
            max_attempts=raw["max_attempts"],
            backfill=raw["backfill"],
            system_prompt=raw["system_prompt"],
            tools=tuple(Tool.from_json(tool) for tool in raw["tools"]),
            tool_choice=raw["tool_choice"],
            examples=tuple(_example(example) for example in raw["examples"]),
            parameters=raw["parameters"],
            limits=Limits(
                raw["max_steps"],
                raw["max_tokens"],
                None if raw["max_cost"] is None else float(raw["max_cost"]),
                raw["max_seconds"],
                raw["max_output_tokens"],
            ),
            approval_seconds=float(raw["approval_seconds"]),
        )

    @property
    def relation(self) -> tuple[str, str]:
        """Schema and table, as they were called when this version was made."""
        return (self.schema, self.table)

    @property
    def bound(self) -> frozenset[str]:
        """The columns that tools are given arguments from."""
        return frozenset(column for tool in self.tools for column in tool.bind.values())

    def tool(self, name: str) -> Tool | None:
        """Find a tool by the name the model uses."""
        return next((tool for tool in self.tools if tool.name == name), None)


def _example(raw: Mapping[str, Any]) -> Example:
    return Example(raw["text"], raw["tool"], raw.get("arguments", {}))
