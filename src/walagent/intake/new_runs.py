"""Make the run of a matched change.  Pure."""

from collections.abc import Sequence
from typing import Any

from walagent.domain.change import Begin
from walagent.domain.run import TURN_PRIORITY, NewRun, RunState
from walagent.intake.deferred_codec import write_change
from walagent.intake.verdicts import Deferred, Gone, Raised, Verdict, match_of
from walagent.matching import document
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.matching.match import Match, TooDeep


def new_run(begin: Begin, found: Verdict | TooDeep, limits: SizeLimits = SIZE_LIMITS) -> NewRun:
    """Return the run of a change, which can end at once."""
    match = found if isinstance(found, TooDeep) else match_of(found)
    if match.attachment.turns is not None:
        return _new_turn(begin, found, limits)
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
        tenant=attachment.tenant,
        row_tenant=document.tenant_of(change, attachment),
        priority=attachment.queueing.priority,
        shadow=match.shadow if isinstance(match, Match) and state is RunState.PENDING else None,
    )


# What a turn keeps of its event.  The text stays where it is: the thread is read when it starts.
_OF_EVENT = ("tenant", "thread_id", "number", "id", "type", "author", "run_id")


def _new_turn(begin: Begin, found: Verdict | TooDeep, limits: SizeLimits) -> NewRun:
    """Return the turn that an event of a thread starts.

    Its version is the one with which the agent took its first turn in the thread.

    Its depth is 0: the thread limits how often agents answer one another.  A turn of a broken
    attachment waits as it is: its rule is asked again when it starts.
    """
    match = found if isinstance(found, TooDeep) else match_of(found)
    attachment, change, origin = match.attachment, match.change, match.origin
    pinned = None if isinstance(match, TooDeep) else match.pinned
    state, error = state_of(found, limits)
    new = change.new or {}
    return NewRun(
        attachment_id=attachment.id,
        attachment_version=pinned or attachment.version,
        commit_lsn=begin.commit_lsn,
        ordinal=change.ordinal,
        committed_at=begin.committed_at,
        change={
            "op": change.op.value,
            "schema": change.relation.schema,
            "table": change.relation.name,
            "new": {name: new.get(name) for name in _OF_EVENT},
        },
        key=document.key_of(new, attachment),
        ordering_key=document.ordering_key_of(change, attachment),
        max_attempts=attachment.queueing.max_attempts,
        cause_run=None if origin is None else origin.run_id,
        state=state,
        error=error,
        kind="turn",
        tenant=attachment.tenant,
        principal=attachment.agent.name,
        delay=attachment.queueing.debounce,
        priority=attachment.queueing.priority + TURN_PRIORITY,
    )


def unabsorbed(runs: Sequence[NewRun]) -> list[NewRun]:
    """Leave one turn of each agent and thread: it is rendered after all these events."""
    seen = set[tuple[int, str | None]]()
    kept = list[NewRun]()
    for run in runs:
        key = (run.attachment_id, run.ordering_key)
        if run.kind == "turn" and run.state is RunState.PENDING:
            if key in seen:
                continue
            seen.add(key)
        kept.append(run)
    return kept


def state_of(
    found: Verdict | TooDeep, limits: SizeLimits = SIZE_LIMITS
) -> tuple[RunState, dict[str, Any] | None]:
    """Return the state of a new run, and the reason if it ends at once or waits."""
    match found:
        case Match(attachment, change) if document.is_found(change, attachment, limits):
            return RunState.PENDING, None
        case Match(attachment, change) if name := document.unnamed(change, attachment):
            reason = f'column "{name}" is not valid text: a tool would not find the row'
            return RunState.DEAD, {"reason": reason, "sqlstate": "22021"}
        case Match(attachment, change) if cut := document.cut_off(change, attachment, limits):
            name, length = cut
            reason = (
                f'column "{name}" has {length} characters, more than {limits.value}'
                " (changes.max_value): a tool would receive a part of it"
            )
            return RunState.DEAD, {"reason": reason, "sqlstate": "54000"}
        case Match():
            raise AssertionError("is_found disagrees with unnamed and cut_off")
        case Deferred(_, reason):
            return RunState.PENDING, {"reason": f"evaluation deferred: {reason}"}
        case Raised(_, sqlstate, message):
            reason = f"condition raised an error: {message}"
            return RunState.DEAD, {"reason": reason, "sqlstate": sqlstate}
        case Gone(_, hidden):
            # Of a row that the role cannot see, no run would have been executed.
            state = RunState.SKIPPED if hidden else RunState.DEAD
            return state, {"reason": found.reason, "sqlstate": "02000"}
        case TooDeep(attachment, _, origin):
            reason = (
                f"depth {origin.depth + 1} of the chain of runs exceeds max_depth"
                f" {attachment.trigger.max_depth} of {attachment.name}"
            )
            return RunState.SKIPPED, {"reason": reason}
