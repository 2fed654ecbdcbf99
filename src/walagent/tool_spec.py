"""A tool of an agent: what the model sees of it, and how its effect stays exactly once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from walagent.message import Json, ToolSpec

_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def is_tool_name(name: str) -> bool:
    """Whether every provider accepts *name* as the name of a tool."""
    return _TOOL_NAME.fullmatch(name) is not None


def mcp_tool_name(server: str, tool: str) -> str:
    """Name a tool of an MCP server: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", f"{server}__{tool}")


class Effect(StrEnum):
    """How a tool reaches "exactly once"."""

    READ = "read"  # changes nothing; repeating it is free
    TRANSACTIONAL = "transactional"  # commits with its step
    IDEMPOTENT = "idempotent"  # leaves the database; harmless to repeat with the same key
    UNSAFE = "unsafe"  # leaves the database; at most once, a person resolves an unknown outcome


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of an agent.  `bind` maps arguments that the model does not see to columns."""

    name: str
    kind: str  # sql | python | mcp | builtin, or what the actor of another kind of run knows
    target: str
    description: str
    input_schema: Mapping[str, Json]
    effect: Effect
    timeout: float = 30.0  # seconds
    approval: bool = False
    bind: Mapping[str, str] = field(default_factory=dict[str, str])
    schema: str = ""  # kind sql: the function's schema, its name and its arguments (name, type)
    function: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    returns_set: bool = False
    fingerprint: str = ""  # kind mcp: of the version that a person accepted
    role: str = ""  # builtin query: the role that it reads as

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read what agent_internal.resolve_tool() returned."""
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
