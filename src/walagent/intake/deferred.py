"""Evaluating changes late: those that came while their attachment had lost its ground.

Each has a pending run and is kept whole beside it.  When the attachment goes on, its run is claimed
like any other; before a model hears of it, the change is matched and evaluated by what the
attachment means now.
"""

from dataclasses import replace

from walagent.attachment import Attachment
from walagent.change import Change, Op
from walagent.errors import BrokenAttachmentError
from walagent.intake.conditions import Deferred, Evaluator, Verdict
from walagent.intake.deferred_codec import read_change
from walagent.intake.new_runs import state_of
from walagent.lsn import Lsn
from walagent.matching import document
from walagent.matching.document import ROOM, Room
from walagent.matching.drift import lack
from walagent.matching.match import Match, touches
from walagent.run import Claim, RunState
from walagent.runs.error_policy import Outcome
from walagent.store import attachments, deferred
from walagent.store.checkpoint import to_plain
from walagent.store.connections import Pool

_FALSE = "its change does not match: it was evaluated when the attachment could go on"
_GONE = "its change is not there any more, and was never evaluated"


def is_deferred(claim: Claim) -> bool:
    """Whether nobody has evaluated the change of a run yet; of one that has begun, a person has."""
    return bool(claim.change.get("deferred")) and not claim.steps


async def check_drift(pool: Pool, attachment: Attachment) -> None:
    """Raise BrokenAttachmentError if the attachment, as it is now, cannot go on."""
    async with pool.connection() as conn:
        reason = await attachments.drift_of(conn, attachment.id, attachment.version)
    if reason:
        raise BrokenAttachmentError(reason)


async def evaluate_deferred(
    pool: Pool, claim: Claim, attachment: Attachment, room: Room = ROOM
) -> Claim | Outcome:
    """Evaluator the change of a run.

    Args:
        room: how much of it the run then keeps.

    Returns:
        the run as one like any other, where the change matches; else how it ends.

    Raises:
        BrokenAttachmentError: it still cannot be evaluated.
    """
    async with pool.connection() as conn:
        text = await deferred.deferred_change(conn, claim.run_id)
    if text is None:
        return Outcome(RunState.SKIPPED, _GONE)
    change = read_change(text)
    verdict = await _verdict(pool, attachment, change)
    match verdict:
        case None:
            return Outcome(RunState.SKIPPED, _FALSE)
        case Deferred(_, reason):
            await check_drift(pool, attachment)
            await _check_condition(pool, attachment)
            # The attachment stands; it is this change that it cannot read.
            return Outcome(RunState.DEAD, f"its change cannot be evaluated: {reason}")
        case _:
            state, error = state_of(verdict, room)
    if error is not None:
        return Outcome(state, error["reason"], sqlstate=error.get("sqlstate"))
    shown = document.document(change, attachment, room)
    key = document.key_of(document.row_of(change), attachment)
    async with pool.connection() as conn:
        await deferred.accept_deferred(conn, claim, shown, key)
    return replace(claim, change=to_plain(shown), key=key)


async def _check_condition(pool: Pool, attachment: Attachment) -> None:
    """Raise BrokenAttachmentError if the condition cannot be asked of the table as it is now."""
    relation = attachment.target.as_relation()
    change = Change(Lsn(0), 0, Op.INSERT, relation, {}, None)
    async with pool.connection() as conn:
        reason = await Evaluator(conn).why_not_at_all(Match(attachment, change, None))
    if reason:
        raise BrokenAttachmentError(reason)


async def _verdict(pool: Pool, attachment: Attachment, change: Change) -> Verdict | None:
    if change.op not in attachment.trigger.ops:
        return None
    missing = lack(attachment, change.relation, change.op)
    if not missing and not touches(change, attachment):
        return None
    async with pool.connection() as conn:
        verdicts = await Evaluator(conn).evaluate([Match(attachment, change, None, missing)])
    return verdicts[0] if verdicts else None
