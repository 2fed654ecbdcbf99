"""Every error walagent raises, and who acts on it next.

    WalagentError
    ├── DecodeError             STOP        bytes that are not what the protocol allows
    ├── StreamLostError         RETRY       the replication connection is gone
    ├── SlotBusyError           RETRY       another reader holds the slot
    ├── DatabaseLostError       RETRY       an ordinary connection is gone, or none could be had
    │   └── ConflictError       RETRY       somebody else's lock or transaction was in the way
    ├── GapError                STOP        the WAL between two positions cannot be had any more
    ├── PreconditionError       STOP        the server or the role is not set up for us
    │   └── LoginRefusedError   STOP        the server does not let this login in
    ├── RoleRefusedError        ASK_PERSON  an agent's role may not do what its attachment needs
    ├── BrokenAttachmentError   ASK_PERSON  an attachment's table or tools have changed
    ├── ConfigError             STOP        a file, option, spec string or name is wrong
    ├── FencedError             YIELD_RUN   a newer reader took over the checkpoint
    ├── LeaseLostError          YIELD_RUN   another worker has the run by now
    ├── StepTakenError          YIELD_RUN   the step is recorded already
    ├── RunCancelledError       YIELD_RUN   somebody cancelled the run
    ├── ModelUnavailableError   RETRY       overloaded, timed out, unreachable, cut off
    ├── ModelLimitedError       RETRY       429 or 529: wait, without using up an attempt
    ├── ModelRejectedError      FAIL_RUN    the provider will never take this request
    ├── ModelUnauthorizedError  ASK_PERSON  the credential is missing, wrong or spent
    ├── ToolFailedError         TELL_MODEL  the tool said no
    ├── ToolBrokenError         RETRY       a tool raised what it should not
    ├── StepBrokenError         FAIL_RUN    a tool has ended the transaction of its step
    ├── InvalidCallError        TELL_MODEL  unknown tool, or arguments that its schema refuses
    ├── StatementRefusedError   TELL_MODEL  SQL that the guard does not let run
    ├── OutcomeUnknownError     ASK_PERSON  an unsafe tool may or may not have acted
    ├── BudgetExceededError     RETRY       a budget does not allow the call now
    └── LimitReachedError       FAIL_RUN    a limit of the run is used up, or a budget

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
    FAIL_RUN = "fail_run"  # nobody any more
    YIELD_RUN = "yield_run"  # somebody else has it
    STOP = "stop"  # the operator; the daemon ends with exit code 3


class WalagentError(Exception):
    """An error of ours: a sentence, and where it helps a hint that says what to do.

    Args:
        message: one sentence; names the thing and the reason.
        hint: what fixes it, ideally a statement or command to copy.
        sqlstate: PostgreSQL's code where the database was the reason, else None.
    """

    next: ClassVar[Next] = Next.STOP

    def __init__(self, message: str, *, hint: str = "", sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.sqlstate = sqlstate


class DecodeError(WalagentError):
    """The server sent bytes that the protocol does not allow.

    Args:
        offset: where in the payload, in bytes.
    """

    def __init__(self, message: str, *, offset: int) -> None:
        super().__init__(f"{message} (at byte {offset})")
        self.offset = offset


class StreamLostError(WalagentError):
    """The replication connection is gone; open a new stream from the checkpoint's position."""

    next = Next.RETRY


class SlotBusyError(WalagentError):
    """Another reader holds the slot; stand by and try again."""

    next = Next.RETRY


class DatabaseLostError(WalagentError):
    """An ordinary connection is gone, or none could be had."""

    next = Next.RETRY


class ConflictError(DatabaseLostError):
    """A lock or transaction of somebody else was in the way; again later, at no attempt's cost."""


class GapError(WalagentError):
    """WAL that we never read cannot be had any more; a person decides how to go on."""


class PreconditionError(WalagentError):
    """The server, its settings or the role's privileges do not allow what we need."""


class LoginRefusedError(PreconditionError):
    """The server does not let this login in.

    At the start that ends the daemon.  One that runs already waits: passwords are rotated.
    """


class RoleRefusedError(WalagentError):
    """We cannot become the role of an attachment, or it may not see what its agent is shown."""

    next = Next.ASK_PERSON


class BrokenAttachmentError(WalagentError):
    """The table, key or tools of an attachment are not what it was defined with."""

    next = Next.ASK_PERSON


class ConfigError(WalagentError):
    """A file, option, spec string or name is wrong; nothing was changed."""


class FencedError(WalagentError):
    """A newer reader took the checkpoint over; this one must not write any more."""

    next = Next.YIELD_RUN


class LeaseLostError(WalagentError):
    """Another worker holds the run by now; roll back and leave it."""

    next = Next.YIELD_RUN


class StepTakenError(WalagentError):
    """The step is there already: its effects are done, ours roll back."""

    next = Next.YIELD_RUN


class RunCancelledError(WalagentError):
    """Somebody cancelled the run while we worked on it."""

    next = Next.YIELD_RUN


class ModelUnavailableError(WalagentError):
    """The provider is overloaded, timed out, unreachable, or cut the answer off.

    Args:
        retry_after: seconds to wait at least; None where nobody said.
        counts: whether it uses up an attempt.  Not where the request never left us, nor where it
            was sent to find out for all others whether anybody answers again.
    """

    next = Next.RETRY

    def __init__(
        self, message: str, *, retry_after: float | None = None, counts: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.counts = counts


class ModelLimitedError(WalagentError):
    """The provider asks us to slow down (429, 503, 529); costs no attempt.

    Args:
        retry_after: seconds that the provider asked for; None when it did not say.
        sent: False where we held the call back because of what other calls were told.
    """

    next = Next.RETRY

    def __init__(
        self, message: str, *, retry_after: float | None = None, sent: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.sent = sent


class ModelRejectedError(WalagentError):
    """The provider will never take this request (400, 404, 413, 422)."""

    next = Next.FAIL_RUN


class ModelUnauthorizedError(WalagentError):
    """The credential is missing, wrong or spent (401, 402, 403): nobody's runs can succeed."""

    next = Next.ASK_PERSON


class ToolFailedError(WalagentError):
    """A tool said no; the message is for the model to read."""

    next = Next.TELL_MODEL


class ToolBrokenError(WalagentError):
    """A tool that leaves the database raised what it should have told."""

    next = Next.RETRY


class StepBrokenError(WalagentError):
    """A tool has ended the transaction of its step: its effects may stand without the step."""

    next = Next.FAIL_RUN


class InvalidCallError(WalagentError):
    """The model called a tool that it does not have, or with arguments its schema refuses."""

    next = Next.TELL_MODEL


class StatementRefusedError(WalagentError):
    """The guard does not let this SQL run; the message is for its author, often a model.

    Args:
        sqlstate: PostgreSQL's code when the server refused, else None.
        position: where in the statement, in characters from 1, when the server said.
    """

    next = Next.TELL_MODEL

    def __init__(
        self, message: str, *, sqlstate: str | None = None, position: int | None = None
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.position = position


class OutcomeUnknownError(WalagentError):
    """An unsafe tool was started and nobody knows whether it acted."""

    next = Next.ASK_PERSON


class BudgetExceededError(WalagentError):
    """A budget does not allow the next call now; waiting for it costs no attempt.

    Args:
        refusal: what agent_internal.reserve() said, for agent_internal.wait_for_budget().
    """

    next = Next.RETRY

    def __init__(
        self, message: str, *, refusal: Mapping[str, Any] | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal or {}


class LimitReachedError(WalagentError):
    """A limit of the run (steps, tokens, cost, time, repetition) is used up, or a budget."""

    next = Next.FAIL_RUN
