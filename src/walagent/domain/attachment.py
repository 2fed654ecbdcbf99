"""An attachment: an agent on a table, as one frozen version."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from walagent.domain.agent_spec import AgentSpec, Authority, Target
from walagent.domain.change import Op
from walagent.domain.tenant import DEFAULT_TENANT, Actor


@dataclass(frozen=True, slots=True)
class Trigger:
    """The changes that start a run."""

    ops: frozenset[Op]
    condition: str | None = None
    condition_columns: tuple[str, ...] = ()
    old_columns: tuple[str, ...] = ()  # that the condition reads of old, and the WAL contained
    missing_old: tuple[str, ...] = ()  # that it reads of old, and the WAL did not contain
    whole_row: bool = False  # whether the condition reads new or old as a whole
    max_depth: int = 3
    backfill: bool = False

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.define()."""
        return cls(
            ops=frozenset(Op(op) for op in raw["ops"]),
            condition=raw["condition"],
            condition_columns=tuple(raw["condition_columns"]),
            old_columns=tuple(raw.get("old_columns", ())),
            missing_old=tuple(raw.get("missing_old", ())),
            whole_row=raw.get("whole_row", False),
            max_depth=raw["max_depth"],
            backfill=raw["backfill"],
        )


@dataclass(frozen=True, slots=True)
class Queueing:
    """The order of runs, their concurrency, and the number of attempts."""

    ordering_key: tuple[str, ...] | None = None  # columns; None: the primary key
    debounce: float | None = None  # seconds
    cap: int | None = None  # concurrent runs
    max_attempts: int = 5
    priority: int = 0

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.define()."""
        key, debounce = raw["ordering_key"], raw["debounce_seconds"]
        return cls(
            ordering_key=None if key is None else tuple(key),
            debounce=None if debounce is None else float(debounce),
            cap=raw["cap"],
            max_attempts=raw["max_attempts"],
            priority=raw.get("priority", 0),  # without one: stored before there were priorities
        )


@dataclass(frozen=True, slots=True)
class Attachment:
    """One version of an attachment."""

    id: int
    version: int
    name: str
    target: Target
    trigger: Trigger
    agent: AgentSpec
    authority: Authority
    queueing: Queueing = Queueing()
    turns: Mapping[str, Any] | None = None  # how the agent takes part in threads
    tenant: str = DEFAULT_TENANT
    tenant_column: str | None = None  # whose text names the tenant of each row

    @property
    def actor(self) -> Actor:
        """Return as whom its condition is evaluated."""
        return Actor(self.tenant, self.agent.name)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Build from the result of agent_internal.define()."""
        return cls(
            raw["id"],
            raw["version"],
            raw["name"],
            Target.from_json(raw),
            Trigger.from_json(raw),
            AgentSpec.from_json(raw),
            Authority.from_json(raw),
            Queueing.from_json(raw),
            raw.get("turns"),
            raw.get("tenant", DEFAULT_TENANT),  # without one: stored before there were tenants
            raw.get("tenant_column"),
        )
