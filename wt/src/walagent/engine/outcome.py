"""What becomes of a run whose work raised: the one place that acts on an error's class."""

from dataclasses import dataclass

from walagent.engine.backoff import delay
from walagent.errors import (
    ModelLimitedError,
    ModelUnauthorizedError,
    Next,
    RunCancelledError,
    WalagentError,
)
from walagent.message import Json
from walagent.run import Claim, RunState


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state a run goes to, and how.

    `state` None: leave the run alone, somebody else has it or it cannot be written now.
    """

    state: RunState | None
    reason: str = ""
    delay: float = 0.0  # seconds until the next attempt
    refund: bool = False  # the attempt does not count
    pause: bool = False  # no other run of this attachment can succeed either

    @property
    def error(self) -> dict[str, Json] | None:
        """What is recorded as the run's error."""
        return {"reason": self.reason} if self.reason else None


def outcome_of(error: Exception, claim: Claim) -> Outcome:
    """Decide from the error and the attempts so far."""
    reason = str(error)[:2000] or type(error).__name__
    match error:
        case RunCancelledError():
            return Outcome(RunState.CANCELLED, "cancelled")
        case ModelLimitedError():
            wait = delay(claim.attempt, error.retry_after)
            return Outcome(RunState.WAITING_RETRY, reason, delay=wait, refund=True)
        case ModelUnauthorizedError():
            return Outcome(RunState.PENDING, reason, refund=True, pause=True)
        case TimeoutError():
            return Outcome(RunState.FAILED, "the run took longer than it may (max_seconds)")
        case WalagentError(next=Next.YIELD_RUN):
            return Outcome(None, reason)
        case WalagentError(next=Next.RETRY):
            return _again(claim, reason)
        case WalagentError():
            return Outcome(RunState.FAILED, reason)
        case _:
            return _again(claim, f"{type(error).__name__}: {reason}")


def _again(claim: Claim, reason: str) -> Outcome:
    if claim.attempt >= claim.max_attempts:
        return Outcome(RunState.DEAD, f"{reason} (attempt {claim.attempt} of {claim.max_attempts})")
    return Outcome(RunState.WAITING_RETRY, reason, delay=delay(claim.attempt))
