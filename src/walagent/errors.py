"""All errors of walagent, and who acts on each.

    WalagentError
        ├── DecodeError             STOP        bytes that the protocol does not allow
        ├── StreamLostError         RETRY       the replication connection was lost
        ├── SlotBusyError           RETRY       another reader has the slot
        ├── DatabaseLostError       RETRY       a connection was lost or could not be opened
        │   └── ConflictError       RETRY       a lock or serialization conflict
        ├── CircuitBreakerOpenError RETRY       several failures in a row; not tried for now
        ├── GapError                STOP        unread WAL is no longer available
        ├── PreconditionError       STOP        the server or the role is not configured
        │   └── LoginRefusedError   STOP        the server rejects the login
        ├── RoleRefusedError        ASK_PERSON  an agent's role lacks a privilege of its attachment
        ├── BrokenAttachmentError   ASK_PERSON  an attachment's table or tools have changed
        ├── ConfigError             STOP        a file, option, spec string or name is invalid
        ├── FencedError             YIELD_RUN   a newer reader took over the checkpoint
        ├── LeaseLostError          YIELD_RUN   another worker has the run
        ├── StepTakenError          YIELD_RUN   the step is recorded already
        ├── RunCancelledError       YIELD_RUN   the run was cancelled
        ├── ModelError              RETRY       a call of a model failed; it may be charged
        │   ├── ModelUnavailableError   RETRY       overloaded, timed out, unreachable, truncated
        │   │   └── ModelMissingError   RETRY       not in agent.model, or not read yet
        │   ├── ModelLimitedError       RETRY       429, 503, 529: counts no attempt
        │   ├── ModelRejectedError      FAIL_RUN    the provider rejects this request permanently
        │   └── ModelUnauthorizedError  ASK_PERSON  the credential is missing, invalid or exhausted
        ├── ToolFailedError         TELL_MODEL  a tool rejected the call
        ├── ToolBrokenError         RETRY       a tool raised an unexpected exception
        ├── DeliveryDelayedError    RETRY       a message was not accepted now
        ├── DeliveryRefusedError    FAIL_RUN    a message is not accepted permanently
        ├── InvalidCallError        TELL_MODEL  unknown tool, or arguments that its schema rejects
        ├── StatementRefusedError   TELL_MODEL  SQL that the guard does not allow
        ├── OutcomeUnknownError     ASK_PERSON  an unsafe tool might have acted
        ├── BudgetExceededError     RETRY       a budget does not allow the call now
        └── LimitReachedError       FAIL_RUN    a limit of the run, or a budget, is exhausted

One place acts on `error.next`: `runs.worker` for runs, `app.serve` for the daemon.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar


class Next(Enum):
    """Who acts next."""

    RETRY = "retry"  # nobody; the same thing again, later
    TELL_MODEL = "tell_model"  # the model, which reads the message as a tool result
    ASK_PERSON = "ask_person"  # a person; the run waits
    FAIL_RUN = "fail_run"  # nobody
    YIELD_RUN = "yield_run"  # another worker
    STOP = "stop"  # the operator; the daemon ends with exit code 3


class WalagentError(Exception):
    """An error of walagent: a message, and often a hint that says what to do.

    Args:
        message: what is wrong and what was expected.
        hint: what to do, if possible a statement or command to copy.
        sqlstate: PostgreSQL's code if the database caused it, else None.
    """

    next: ClassVar[Next] = Next.STOP

    def __init__(self, message: str, *, hint: str = "", sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.sqlstate = sqlstate


class DecodeError(WalagentError):
    """The server sent bytes that the protocol does not allow.

    Args:
        offset: the position in the payload, in bytes.
    """

    def __init__(self, message: str, *, offset: int) -> None:
        super().__init__(f"{message} (at byte {offset})")
        self.offset = offset


class StreamLostError(WalagentError):
    """The replication connection was lost; open a new stream from the checkpoint."""

    next = Next.RETRY


class SlotBusyError(WalagentError):
    """Another reader has the slot; wait on standby and retry."""

    next = Next.RETRY


class DatabaseLostError(WalagentError):
    """A connection was lost, or none could be opened."""

    next = Next.RETRY


class ConflictError(DatabaseLostError):
    """A lock or serialization conflict; retried without counting an attempt."""


class CircuitBreakerOpenError(WalagentError):
    """The database or a model failed several times; it is not tried until some time has passed."""

    next = Next.RETRY


class GapError(WalagentError):
    """Unread WAL is no longer available; an operator decides."""


class PreconditionError(WalagentError):
    """The server, its settings or the role's privileges do not meet a requirement."""


class LoginRefusedError(PreconditionError):
    """The server rejects the login.

    During the start it ends the daemon.  Later the daemon waits, because passwords are rotated.
    """


class RoleRefusedError(WalagentError):
    """The role of an attachment cannot be set, or lacks a privilege on what its agent sees."""

    next = Next.ASK_PERSON


class BrokenAttachmentError(WalagentError):
    """The table, key or tools of an attachment differ from its definition."""

    next = Next.ASK_PERSON


class ConfigError(WalagentError):
    """A file, option, spec string or name is invalid; nothing was changed."""


class FencedError(WalagentError):
    """A newer reader took over the checkpoint; this one must not write."""

    next = Next.YIELD_RUN


class LeaseLostError(WalagentError):
    """Another worker has the run; roll back and leave it."""

    next = Next.YIELD_RUN


class StepTakenError(WalagentError):
    """The step is recorded already and its effects are done; roll back."""

    next = Next.YIELD_RUN


class RunCancelledError(WalagentError):
    """The run was cancelled during its execution."""

    next = Next.YIELD_RUN


class ModelError(WalagentError):
    """A call of a model failed.

    Args:
        usage: the `Usage` of a reply that came and cannot be used; None: none came.
    """

    next = Next.RETRY

    def __init__(self, message: str, *, hint: str = "", usage: object = None) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage


class ModelUnavailableError(ModelError):
    """The provider is overloaded, timed out or unreachable, or truncated the reply.

    Args:
        retry_after: minimum seconds to wait; None if not known.
        counts: whether it counts as an attempt.  It does not if the request was not sent, or was
            the probe of an open circuit breaker.
        usage: as of `ModelError`.
        breaker: whether it was that probe.
    """

    next = Next.RETRY

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        counts: bool = True,
        usage: object = None,
        breaker: bool = False,
    ) -> None:
        super().__init__(message, usage=usage)
        self.retry_after = retry_after
        self.counts = counts
        self.breaker = breaker


class ModelMissingError(ModelUnavailableError):
    """No row of agent.model was found when the registry was last read, or it is not enabled."""


class ModelLimitedError(ModelError):
    """The provider requests a pause (429, 503, 529); counts no attempt.

    Args:
        retry_after: seconds that the provider requested; None if it sent none.
        sent: False if the call was held back because of the reply to another call.
        breaker: whether a circuit breaker, open after failed calls, held it back.
        usage: as of `ModelError`.
        in_row: how many pauses this process was asked for, without an answer between them.
    """

    next = Next.RETRY

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        sent: bool = True,
        breaker: bool = False,
        usage: object = None,
    ) -> None:
        super().__init__(message, usage=usage)
        self.retry_after = retry_after
        self.sent = sent
        self.breaker = breaker
        self.in_row = 0


class ModelRejectedError(ModelError):
    """The provider rejects this request permanently (400, 404, 413, 422).

    Args:
        refused: whether for what it says, which another provider might answer.
        usage: as of `ModelError`.
    """

    next = Next.FAIL_RUN

    def __init__(
        self, message: str, *, hint: str = "", refused: bool = False, usage: object = None
    ) -> None:
        super().__init__(message, hint=hint, usage=usage)
        self.refused = refused


class ModelUnauthorizedError(ModelError):
    """The credential is missing, invalid or exhausted (401, 402, 403): every run would fail."""

    next = Next.ASK_PERSON


class ToolFailedError(WalagentError):
    """A tool rejected the call; the model receives the message."""

    next = Next.TELL_MODEL


class ToolBrokenError(WalagentError):
    """A tool with effects outside the database raised an unexpected exception."""

    next = Next.RETRY


class DeliveryDelayedError(WalagentError):
    """A message was not accepted now, or can be sent again; retried with backoff.

    Args:
        retry_after: minimum seconds to wait; None if not known.
    """

    next = Next.RETRY

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeliveryRefusedError(WalagentError):
    """A message was not delivered, and would not be if it were sent again."""

    next = Next.FAIL_RUN


class InvalidCallError(WalagentError):
    """The model called an unknown tool, or with arguments that the schema rejects."""

    next = Next.TELL_MODEL


class StatementRefusedError(WalagentError):
    """The guard does not allow this SQL; its author, often a model, receives the message.

    Args:
        sqlstate: PostgreSQL's code if the server rejected it, else None.
        position: in the statement, in characters from 1, if the server reported it.
        executed: whether the statement was executed or planned: the message can quote a row.
    """

    next = Next.TELL_MODEL

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        position: int | None = None,
        executed: bool = False,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.position = position
        self.executed = executed


class OutcomeUnknownError(WalagentError):
    """An unsafe tool was started, and it is unknown whether it acted.

    Args:
        retry_after: seconds after which it may be started again; None if not known.
    """

    next = Next.ASK_PERSON

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BudgetExceededError(WalagentError):
    """A budget does not allow the next call now; waiting counts no attempt.

    Args:
        refusal: the result of agent_internal.reserve(), for agent_internal.wait_for_budget().
    """

    next = Next.RETRY

    def __init__(
        self, message: str, *, refusal: Mapping[str, Any] | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal or {}


class LimitReachedError(WalagentError):
    """A limit of the run (steps, tokens, cost, time, repetition), or a budget, is exhausted."""

    next = Next.FAIL_RUN
