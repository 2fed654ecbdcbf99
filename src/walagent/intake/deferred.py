"""Evaluate changes deferred while their attachment was broken.

Each has a pending run and is stored whole.  After the attachment is resumed, the run is claimed
like any other; before the model is asked, the change is matched and evaluated by the present
definition.
"""

from collections.abc import Callable
from dataclasses import replace

from walagent.domain.attachment import Attachment
from walagent.domain.change import Change, Op
from walagent.domain.run import RunSpec, RunState
from walagent.errors import BrokenAttachmentError
from walagent.intake.conditions import open_evaluator
from walagent.intake.deferred_codec import read_change
from walagent.intake.new_runs import state_of
from walagent.intake.verdicts import Deferred, Verdict
from walagent.matching import document
from walagent.matching.document import SIZE_LIMITS, SizeLimits
from walagent.matching.drift import lack
from walagent.matching.match import Match, touches
from walagent.moves import End
from walagent.postgres.lsn import Lsn
from walagent.store import attachments, deferred
from walagent.store.ingestion import to_plain
from walagent.store.sessions.connections import Pool

_FALSE = "deferred change does not match the resumed attachment"
_GONE = "deferred change was removed before it was evaluated"


async def evaluate_deferred(
    run: RunSpec,
    *,
    pool: Pool,
    limits: SizeLimits = SIZE_LIMITS,
    tools_dsn: Callable[[], str] = lambda: "",
) -> RunSpec | End:
    """Evaluate the deferred change of a run.

    Args:
        limits: how much of the change the run stores.

    Returns:
        the run with its change if it matches; else how it ends.

    Raises:
        BrokenAttachmentError: the attachment is still broken.
    """
    async with pool.connection() as conn:
        text = await deferred.deferred_change(conn, run.run_id)
        attachment = await attachments.attachment_of(conn, run.claim)
    if text is None:
        return End(RunState.SKIPPED, reason=_GONE)
    change = read_change(text)
    verdict = await _verdict(pool, attachment, change, tools_dsn)
    match verdict:
        case None:
            return End(RunState.SKIPPED, reason=_FALSE)
        case Deferred(_, reason):
            async with pool.connection() as conn:
                await attachments.check_drift(conn, run.claim)
            await _check_condition(pool, attachment, tools_dsn)
            # The attachment is not broken; it cannot read this change.
            return End(RunState.DEAD, reason=f"cannot evaluate the deferred change: {reason}")
        case _:
            state, error = state_of(verdict, limits)
    if error is not None:
        return End(state, reason=error["reason"], sqlstate=error.get("sqlstate"))
    shown = document.document(change, attachment, limits)
    key = document.key_of(document.row_of(change), attachment)
    async with pool.connection() as conn:
        await deferred.accept_deferred(conn, run.claim, shown, key)
    return replace(run, claim=replace(run.claim, change=to_plain(shown), key=key))


async def _check_condition(
    pool: Pool, attachment: Attachment, tools_dsn: Callable[[], str]
) -> None:
    """Raise BrokenAttachmentError if the condition does not fit the present table."""
    relation = attachment.target.as_relation()
    change = Change(Lsn(0), 0, Op.INSERT, relation, {}, None)
    async with pool.connection() as conn, open_evaluator(conn, tools_dsn) as evaluator:
        reason = await evaluator.why_not_at_all(Match(attachment, change, None))
    if reason:
        raise BrokenAttachmentError(reason)


async def _verdict(
    pool: Pool, attachment: Attachment, change: Change, tools_dsn: Callable[[], str]
) -> Verdict | None:
    if change.op not in attachment.trigger.ops:
        return None
    missing = lack(attachment, change.relation, change.op)
    if not missing and not touches(change, attachment):
        return None
    async with pool.connection() as conn, open_evaluator(conn, tools_dsn) as evaluator:
        verdicts = await evaluator.evaluate([Match(attachment, change, None, missing)])
    return verdicts[0] if verdicts else None
