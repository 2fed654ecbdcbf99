"""A run and its steps: one piece of work, and what has happened in it so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from walagent.agent_spec import AgentSpec, Authority, Target
from walagent.lsn import Lsn
from walagent.message import Json


class RunState(StrEnum):
    """Where a run stands; agent_internal.may_follow() says which state may follow which."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING_APPROVAL = "waiting_approval"
    WAITING_RETRY = "waiting_retry"
    NEEDS_REVIEW = "needs_review"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class StepKind(StrEnum):
    """What a step records."""

    REPLY = "reply"  # the model answered
    INTENT = "intent"  # a tool outside the database is about to be called
    RESULT = "result"  # a tool answered, or was refused
    APPROVAL = "approval"  # a person was asked
    DECISION = "decision"  # the person decided
    NOTE = "note"  # text put in by us or by a person
    ERROR = "error"  # an attempt failed; does not count towards the model's transcript


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded step; `content` is what PostgreSQL holds."""

    seq: int
    kind: StepKind
    content: Mapping[str, Json]
    tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A run in the hands of a worker, with the fence that each of its writes checks."""

    run_id: int
    attachment_id: int  # 0: none
    attachment_version: int
    lease: int
    attempt: int
    max_attempts: int
    reason: str
    change: Mapping[str, Any]
    key: str | None
    depth: int
    commit_lsn: str | None
    committed_at: datetime | None
    created_at: datetime
    started_at: datetime
    merged: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[Step, ...] = ()
    kind: str = "agent"
    queue_id: int = 0
    principal: str | None = None
    question: Mapping[str, Any] | None = None

    @property
    def changes(self) -> tuple[Mapping[str, Any], ...]:
        """All changes that the run is about, in commit order."""
        return (self.change, *self.merged)

    @property
    def is_deferred(self) -> bool:
        """Whether its change is not evaluated yet; if the run has begun, a person has decided."""
        return bool(self.change.get("deferred")) and not self.steps


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What is executed: the claim, who acts, on whose behalf, and on which table.

    Nothing after the claim knows attachments or sessions.

    Args:
        source: the attachment's name, for budgets and logs; "" where there is none.
    """

    claim: Claim
    agent: AgentSpec
    authority: Authority
    target: Target | None = None
    source: str = ""

    @property
    def run_id(self) -> int:
        """The run's id."""
        return self.claim.run_id

    @property
    def table(self) -> Target:
        """The table that the run is about.

        Raises:
            LookupError: it is about none; the caller belongs to another kind of run.
        """
        if self.target is None:
            raise LookupError(f"run {self.run_id} of kind {self.claim.kind} is about no table")
        return self.target


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that intake is about to insert."""

    attachment_id: int
    attachment_version: int
    commit_lsn: Lsn
    ordinal: int
    committed_at: datetime
    change: Mapping[str, Any]
    key: str | None
    ordering_key: str | None
    max_attempts: int
    debounce: float | None = None
    cause_run: int | None = None
    depth: int = 0
    state: RunState = RunState.PENDING
    error: Mapping[str, Json] | None = field(default=None)
    deferred: str | None = None  # the whole change, where nobody could evaluate it
