"""Choose the next state of a run that raised.  No other module decides by an error's class."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from walagent.base.retries import DELIVERY, RUN, delay
from walagent.domain.run import Claim, RunState
from walagent.errors import (
    BrokenAttachmentError,
    BudgetExceededError,
    ConflictError,
    DatabaseLostError,
    LimitReachedError,
    ModelLimitedError,
    ModelMissingError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    Next,
    PreconditionError,
    RoleRefusedError,
    RunCancelledError,
    WalagentError,
)
from walagent.message import Json
from walagent.models.limits import LONGEST_WAIT


@dataclass(frozen=True, slots=True)
class Outcome:
    """The next state of a run.

    `state` None: do not write; another worker has the run, or the database is unavailable.
    """

    state: RunState | None
    reason: str = ""
    delay: float = 0.0  # seconds until the next attempt
    refund: bool = False  # the attempt does not count
    pause: bool = False  # no run of this attachment can succeed: pause it
    stop: bool = False  # no run in this process can succeed: stop it
    sqlstate: str | None = None
    refusal: Mapping[str, Json] | None = None  # by the budget that the run waits for

    @property
    def error(self) -> dict[str, Json] | None:
        """What is recorded as the run's error."""
        if not self.reason:
            return None
        return {"reason": self.reason} | ({"sqlstate": self.sqlstate} if self.sqlstate else {})


# A tool that blocks the event loop looks like a suspended process, and can do so at each attempt.
_STOOD_STILL = 10
# A run can end its own session, too.
_ENDED = 10


def outcome_of(
    error: Exception,
    claim: Claim,
    *,
    stood_still: bool = False,
    attended: bool = False,
    begun: bool = True,
) -> Outcome:
    """Decide from the error and the number of attempts.

    Args:
        stood_still: the process was suspended during the attempt, and lost its connections.
        attended: a person waits for the run in this process; an unexpected error fails it.
        begun: whether it was known what to execute.
    """
    outcome = _outcome_of(error, claim)
    if attended and not isinstance(error, WalagentError) and outcome.state is not None:
        outcome = Outcome(RunState.FAILED, outcome.reason)
    is_unsent = isinstance(error, ModelMissingError) or (
        not begun and isinstance(error, DatabaseLostError)
    )
    is_innocent = stood_still or is_unsent
    if is_innocent and claim.lease <= _STOOD_STILL and getattr(error, "next", None) is Next.RETRY:
        outcome = _excused(outcome, claim)
    if outcome.pause and not (claim.attachment_id or attended):  # pending, it would be claimed
        wait = delay(claim.lease)  # at once again
        outcome = replace(outcome, state=RunState.WAITING_RETRY, delay=wait, pause=False)
    return replace(outcome, sqlstate=getattr(error, "sqlstate", None))


# Of a run whose model does not answer; the next ones ask its fall-back.
_OWN_ATTEMPTS = 3


# Pauses that a provider asks for in a tier, before the standard one is asked.
_PAUSES_OF_TIER = 3


def why_standard(error: WalagentError, claim: Claim, *, attended: bool) -> str | None:
    """Say why a run asks the standard tier instead of a cheaper one now; None: it does not.

    Args:
        attended: a person waits, and the call has been repeated.
    """
    match error:
        case ModelLimitedError() if attended or error.in_row >= _PAUSES_OF_TIER:
            return "no capacity"
        case ModelRejectedError():
            return None
        case _:
            return why_fall_back(error, claim, attended=attended)


def why_fall_back(error: WalagentError, claim: Claim, *, attended: bool) -> str | None:
    """Say why a run asks its fall-back model now; None: it does not.

    Args:
        attended: a person waits, and the call has been repeated.
    """
    tries = 1 if attended else min(_OWN_ATTEMPTS, claim.max_attempts)
    match error:
        case ModelMissingError():  # it was disabled on purpose, or is about to be read
            return None
        case ModelLimitedError(breaker=True) | ModelUnavailableError(breaker=True):
            return "circuit breaker open"
        case ModelLimitedError(retry_after=float(wait)) if wait > LONGEST_WAIT:
            return f"limited for {wait:.0f} s"
        case ModelUnavailableError(counts=True) if claim.attempt >= tries:
            return f"no answer in {claim.attempt} attempts"
        case ModelRejectedError(refused=True):
            return "refused"
        case _:
            return None


def why_pass_on(error: WalagentError, claim: Claim, *, attended: bool) -> str | None:
    """Say why a run asks the next model of its cascade now; None: it does not.

    A stage that takes no such request is passed: the next model might take it.
    """
    if isinstance(error, ModelRejectedError):
        return "refused" if error.refused else f"rejected: {error}"[:300]
    return why_fall_back(error, claim, attended=attended)


def why_no_control(error: WalagentError) -> str | None:
    """Say why a run ends without the control of its cascade; None: the error is not of the call."""
    failed = (
        BudgetExceededError,
        LimitReachedError,
        ModelLimitedError,
        ModelMissingError,
        ModelRejectedError,
        ModelUnauthorizedError,
        ModelUnavailableError,
    )
    return str(error)[:300] if isinstance(error, failed) else None


def _outcome_of(error: Exception, claim: Claim) -> Outcome:
    reason = str(error)[:2000] or type(error).__name__
    if (waiting := _wait_of(error, claim, reason)) is not None:
        return waiting
    match error:
        case RunCancelledError():
            return Outcome(RunState.CANCELLED, "cancelled")
        case TimeoutError():
            return Outcome(RunState.FAILED, "run exceeded max_seconds")
        case WalagentError(next=Next.YIELD_RUN):
            return Outcome(None, reason)
        case WalagentError(next=Next.RETRY):
            return _again(claim, reason, getattr(error, "retry_after", None))
        case WalagentError():
            return Outcome(RunState.FAILED, reason)
        case _:
            return _again(claim, f"{type(error).__name__}: {reason}")


def _wait_of(error: Exception, claim: Claim, reason: str) -> Outcome | None:
    """Return the outcome if the error does not count as an attempt; None if it does."""
    match error:
        case BudgetExceededError():
            wait, refusal = error.refusal.get("wait", 0.0), error.refusal
            return Outcome(RunState.WAITING_RETRY, reason, delay=wait, refund=True, refusal=refusal)
        case ModelLimitedError() | ModelUnavailableError(counts=False):
            return _later(claim, reason, error.retry_after)
        case (
            ConflictError() | DatabaseLostError(sqlstate="53100" | "25006")
        ):  # disk full; no writes
            # The lease counts claims: each one without progress makes the wait longer.
            wait = delay(claim.lease)
            return Outcome(RunState.WAITING_RETRY, reason, delay=wait, refund=True)
        case _ if _is_ended_by_others(error) and claim.lease <= _ENDED:
            wait = delay(claim.lease)
            return Outcome(RunState.WAITING_RETRY, reason, delay=wait, refund=True)
        case ModelUnauthorizedError() | RoleRefusedError() | BrokenAttachmentError():
            hinted = f"{reason}; {error.hint}" if error.hint else reason
            return Outcome(RunState.PENDING, hinted, refund=True, pause=True)
        case PreconditionError(sqlstate=str()):  # a statement of walagent: the runner lacks a grant
            return Outcome(RunState.PENDING, reason, refund=True, stop=True)
        case _:
            return None


def _is_ended_by_others(error: Exception) -> bool:
    """Return whether another session has ended the session or the statement.

    Before PostgreSQL 18, code of others can do so to tools of other runs, at the commit of its own.
    """
    match error:
        case DatabaseLostError(sqlstate="57P01" | "57P05"):
            return True
        case WalagentError(sqlstate="57014"):
            return "statement timeout" not in str(error)
        case _:
            return False


def _excused(outcome: Outcome, claim: Claim) -> Outcome:
    """Do not count an attempt that failed for no fault of the run."""
    if outcome.state is RunState.DEAD:
        outcome = Outcome(RunState.WAITING_RETRY, outcome.reason, delay=delay(claim.lease))
    return replace(outcome, refund=True)


def _later(claim: Claim, reason: str, asked: float | None) -> Outcome:
    """Wait without counting an attempt."""
    return Outcome(RunState.WAITING_RETRY, reason, delay=delay(claim.attempt, asked), refund=True)


def _again(claim: Claim, reason: str, asked: float | None = None) -> Outcome:
    if claim.attempt >= claim.max_attempts:
        return Outcome(RunState.DEAD, f"{reason} (attempt {claim.attempt} of {claim.max_attempts})")
    policy = DELIVERY if claim.kind == "delivery" else RUN
    return Outcome(RunState.WAITING_RETRY, reason, delay=delay(claim.attempt, asked, policy))
