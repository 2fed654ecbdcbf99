"""A tool of an agent: its presentation to the model, and how it acts exactly once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from walagent.message import Json, ToolSpec

TOOL_NAME = "[A-Za-z_][A-Za-z0-9_]{0,63}"


def is_tool_name(name: str) -> bool:
    """Return whether every provider accepts *name* as a tool name."""
    return re.fullmatch(TOOL_NAME, name) is not None


def mcp_tool_name(server: str, tool: str) -> str:
    """Return the name for a tool of an MCP server: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", f"{server}__{tool}")


class Effect(StrEnum):
    """How a tool's effect happens exactly once."""

    READ = "read"  # no effect; can be repeated
    TRANSACTIONAL = "transactional"  # commits with its step
    IDEMPOTENT = "idempotent"  # outside the database; can be repeated with the same key
    UNSAFE = "unsafe"  # outside the database; at most once, an operator resolves an unknown outcome

    @property
    def is_outside(self) -> bool:
        """Return whether the effect is outside the database."""
        return self in {Effect.IDEMPOTENT, Effect.UNSAFE}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of an agent.  `bind` maps arguments that the model does not see to columns."""

    name: str
    kind: str  # sql, python, mcp, http, llm or builtin; other kinds of runs define their own
    target: str
    description: str
    input_schema: Mapping[str, Json]
    effect: Effect
    timeout: float = 30.0  # seconds
    approval: bool = False
    bind: Mapping[str, str] = field(default_factory=dict[str, str])
    schema: str = ""  # kind sql: the function's schema, name and arguments (name, type)
    function: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    returns_set: bool = False
    fingerprint: str = ""  # kind mcp: of the accepted version
    role: str = ""  # builtin query: the role that reads
    http: Mapping[str, Json] = field(default_factory=dict[str, Json])  # kind http: the request
    llm: Mapping[str, Json] = field(default_factory=dict[str, Json])  # kind llm: of the request
    output_schema: Mapping[str, Json] | None = None  # of its results; None: any
    retries: int = 0  # of a call that timed out; none of one outside the database
    retry_after: float = 1.0  # seconds before it is repeated

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.resolve_tool()."""
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
            http=raw.get("http") or {},
            llm=raw.get("llm") or {},
            output_schema=raw.get("output_schema"),
            retries=raw.get("retries") or 0,
            retry_after=float(raw.get("retry_seconds", 1)),
        )

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as presented to the model."""
        reads = self.effect is Effect.READ
        return ToolSpec(self.name, self.description or self.name, self.input_schema, reads)
