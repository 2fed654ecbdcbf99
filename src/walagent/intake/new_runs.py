"""From a matched change to the run that is inserted for it.  Pure."""

from typing import Any

from walagent.change import Begin
from walagent.intake.conditions import Deferred, Raised, Verdict, match_of
from walagent.intake.deferred_codec import write_change
from walagent.matching import document
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.matching.match import Match, TooDeep
from walagent.run import NewRun, RunState


def new_run(begin: Begin, found: Verdict | TooDeep, limits: SizeLimits = SIZE_LIMITS) -> NewRun:
    """Write down what a change starts: a run, or one that has ended before it began."""
    match = found if isinstance(found, TooDeep) else match_of(found)
    attachment, change, origin = match.attachment, match.change, match.origin
    state, error = state_of(found, limits)
    shown = document.document(change, attachment, limits)
    deferred = None
    if isinstance(found, Deferred):
        deferred, shown["deferred"] = write_change(change), True
    collects = state is RunState.PENDING and not deferred
    return NewRun(
        attachment_id=attachment.id,
        attachment_version=attachment.version,
        commit_lsn=begin.commit_lsn,
        ordinal=change.ordinal,
        committed_at=begin.committed_at,
        change=shown,
        key=document.key_of(document.row_of(change), attachment),
        ordering_key=document.ordering_key_of(change, attachment),
        max_attempts=attachment.queueing.max_attempts,
        debounce=attachment.queueing.debounce if collects else None,
        cause_run=None if origin is None else origin.run_id,
        depth=0 if origin is None else origin.depth + 1,
        state=state,
        error=error,
        deferred=deferred,
    )


def state_of(
    found: Verdict | TooDeep, limits: SizeLimits = SIZE_LIMITS
) -> tuple[RunState, dict[str, Any] | None]:
    """Say how a new run stands, and why it has ended where it has, or waits."""
    match found:
        case Match(attachment, change) if document.is_found(change, attachment, limits):
            return RunState.PENDING, None
        case Match(attachment, change) if name := document.unnamed(change, attachment):
            reason = f'column "{name}" holds bytes that are no text: a tool would not find the row'
            return RunState.DEAD, {"reason": reason, "sqlstate": "22021"}
        case Match(attachment, change) if cut := document.cut_off(change, attachment, limits):
            name, length = cut
            reason = (
                f'column "{name}" holds {length} characters, and a run keeps {limits.value}'
                " (changes.max_value): a tool would be given a part of it"
            )
            return RunState.DEAD, {"reason": reason, "sqlstate": "54000"}
        case Match():
            raise AssertionError("is_found disagrees with unnamed and cut_off")
        case Deferred(_, reason):
            return RunState.PENDING, {"reason": f"not evaluated yet: {reason}"}
        case Raised(_, sqlstate, message):
            reason = f"the condition raised an error on this row: {message}"
            return RunState.DEAD, {"reason": reason, "sqlstate": sqlstate}
        case TooDeep(attachment, _, origin):
            reason = (
                f"agents have answered agents {origin.depth + 1} times in a row, and"
                f" {attachment.name} allows {attachment.trigger.max_depth} (max_depth)"
            )
            return RunState.SKIPPED, {"reason": reason}
