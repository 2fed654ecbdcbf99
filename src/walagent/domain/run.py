"""A run and its recorded steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from walagent.domain.agent_spec import AgentSpec, Authority, Target
from walagent.domain.tenant import DEFAULT_TENANT, Actor
from walagent.message import Json, Unreadable
from walagent.postgres.lsn import Lsn


class RunState(StrEnum):
    """The state of a run; agent_internal.may_follow() defines the transitions."""

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

    REPLY = "reply"  # a reply of the model
    INTENT = "intent"  # a tool outside the database is about to be called
    RESULT = "result"  # the result of a tool, or a rejected call
    APPROVAL = "approval"  # a request for approval
    DECISION = "decision"  # the decision
    NOTE = "note"  # a text from walagent or a person
    ERROR = "error"  # an attempt failed; not part of the transcript


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded step; `content` is its JSON in the database."""

    seq: int
    kind: StepKind
    content: Mapping[str, Json]
    tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A run claimed by a worker, with the lease number that each of its writes checks."""

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
    tenant: str = DEFAULT_TENANT

    @property
    def changes(self) -> tuple[Mapping[str, Any], ...]:
        """Return all changes of the run in commit order."""
        return (self.change, *self.merged)

    @property
    def last(self) -> Mapping[str, Any]:
        """Return the last change, whose values are bound: the agent acts on what is there now."""
        return self.merged[-1] if self.merged else self.change

    @property
    def unreadable(self) -> str | None:
        """Return why what has been stored of the run is not read; None: it is."""
        stored = (*self.changes, *(step.content for step in self.steps), self.question)
        return next((str(each) for each in stored if isinstance(each, Unreadable)), None)

    @property
    def is_deferred(self) -> bool:
        """Return whether the evaluation is deferred; not if a person has requeued the run."""
        return not self.unreadable and bool(self.change.get("deferred")) and not self.steps

    @property
    def was_shown(self) -> bool:
        """Return whether a model was shown the change: a run can fail, or be requeued, before."""
        return any(step.kind not in {StepKind.NOTE, StepKind.ERROR} for step in self.steps)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The specification of an execution: claim, agent, authority, table.

    Execution does not use attachments or sessions.

    Args:
        source: the attachment's name, for budgets and logs; "" if none.
        turns: how the agent takes part in threads, if it does.
        workflow: the version of the workflow that is executed, if it is one.
    """

    claim: Claim
    agent: AgentSpec
    authority: Authority
    target: Target | None = None
    source: str = ""
    turns: Mapping[str, Any] | None = None
    workflow: Mapping[str, Any] | None = None

    @property
    def actor(self) -> Actor:
        """Return as whom its tools act: the agent, or who asked."""
        return Actor(self.claim.tenant, self.claim.principal or self.agent.name)

    @property
    def run_id(self) -> int:
        """Return the run's ID."""
        return self.claim.run_id

    @property
    def table(self) -> Target:
        """Return the table of the run.

        Raises:
            LookupError: it has none; the caller belongs to another kind of run.
        """
        if self.target is None:
            raise LookupError(f"run {self.run_id} of kind {self.claim.kind} has no table")
        return self.target


# Added to the priority of the attachment.  A person waits for a turn.  Nobody waits for a backfill:
# so an attachment of a priority of -50 still comes first.
TURN_PRIORITY: Final = 10
BACKFILL_PRIORITY: Final = -100


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to insert."""

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
    deferred: str | None = None  # the whole change, if its evaluation is deferred
    kind: str = "agent"
    principal: str | None = None  # of a turn: its agent
    delay: float | None = None  # seconds until a turn can start
    priority: int = 0
    tenant: str = DEFAULT_TENANT
    shadow: int | None = None  # the version whose trial follows
    row_tenant: str | None = None  # that the row names, "": none; None: not asked
