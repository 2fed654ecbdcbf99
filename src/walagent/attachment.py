"""An agent on a table, frozen as one version: when it runs, who it is, as whom, in what order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from walagent.agent_spec import AgentSpec, Authority, Target
from walagent.change import Op


@dataclass(frozen=True, slots=True)
class Trigger:
    """Which changes of the table start a run."""

    ops: frozenset[Op]
    condition: str | None = None
    condition_columns: tuple[str, ...] = ()
    old_columns: tuple[str, ...] = ()  # that the condition reads of the old row, and the WAL had
    whole_row: bool = False  # whether the condition reads new or old as a whole
    max_depth: int = 3
    backfill: bool = False

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read the trigger in what agent_internal.define() returned."""
        return cls(
            ops=frozenset(Op(op) for op in raw["ops"]),
            condition=raw["condition"],
            condition_columns=tuple(raw["condition_columns"]),
            old_columns=tuple(raw.get("old_columns", ())),
            whole_row=raw.get("whole_row", False),
            max_depth=raw["max_depth"],
            backfill=raw["backfill"],
        )


@dataclass(frozen=True, slots=True)
class Queueing:
    """In what order the runs are executed, how many at a time, and how often each is tried."""

    ordering_key: tuple[str, ...] | None = None  # columns; None: the primary key
    debounce: float | None = None  # seconds
    cap: int | None = None  # runs at the same time
    max_attempts: int = 5

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read the queueing in what agent_internal.define() returned."""
        key, debounce = raw["ordering_key"], raw["debounce_seconds"]
        return cls(
            ordering_key=None if key is None else tuple(key),
            debounce=None if debounce is None else float(debounce),
            cap=raw["cap"],
            max_attempts=raw["max_attempts"],
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

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read what agent_internal.define() returned."""
        return cls(
            raw["id"],
            raw["version"],
            raw["name"],
            Target.from_json(raw),
            Trigger.from_json(raw),
            AgentSpec.from_json(raw),
            Authority.from_json(raw),
            Queueing.from_json(raw),
        )
