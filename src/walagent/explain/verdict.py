"""Facts about a row and an attachment in, verdict and reasons out; nothing here does I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from walagent.attachment import Attachment
from walagent.change import Op
from walagent.store.explaining import Attached, PresentRow, ReaderState, RowRun

_CLOSE = 16 << 10  # bytes; the checkpoint moves when runs are ingested, so a little behind is usual


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, as a word for programs and a sentence for people."""

    rule: str
    text: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one attachment made of the row."""

    attachment: str
    verdict: Literal["matched", "no run"]
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known about one attachment and the row."""

    attached: Attached
    runs: Sequence[RowRun]
    row: PresentRow | None
    condition: Literal["none", "true", "false", "raises"]  # on the row as it is now
    problem: str = ""  # what it raises


def explain_attachment(facts: Facts) -> Verdict:
    """Evaluator one attachment."""
    name = facts.attached.attachment.name
    if facts.runs:
        return Verdict(name, "matched", [*_told_runs(facts), *_pause(facts.attached)])
    return Verdict(name, "no run", list(_missing(facts)))


def reader_reasons(reader: ReaderState) -> Iterator[Reason]:
    """Say what the reader has to do with it."""
    if reader.taken_in is None:
        yield Reason("slot_missing", "the WAL was never followed: walagent init, walagent run")
    elif not reader.slot_exists:
        yield Reason("slot_missing", "the slot is gone: walagent doctor")
    elif not reader.reading:
        yield Reason("slot_behind", f"nobody follows the WAL; it is at {reader.taken_in}")
    elif reader.behind is not None and reader.behind > _CLOSE:
        yield Reason(
            "slot_behind",
            f"{reader.behind} bytes behind (at {reader.taken_in} of {reader.written}): the change "
            "may not be ingested yet",
            certain=False,
        )
    if reader.gaps:
        text = "WAL was lost (walagent gaps --all): the change may lie there"
        yield Reason("gap", text, certain=False)


def _told_runs(facts: Facts) -> Iterator[Reason]:
    for run in facts.runs:
        when = f" committed {run.committed_at:%Y-%m-%d %H:%M:%S %Z}" if run.committed_at else ""
        what = "the backfill" if run.reason == "backfill" else f"the {run.op}{when}"
        by = f", written by run {run.cause_run} (depth {run.depth})" if run.cause_run else ""
        error = f": {run.error}" if run.error else ""
        text = f"run {run.id} {run.state}, for {what}{by}{error}"
        yield Reason("depth" if run.state == "skipped" and run.depth else run.state, text)


def _pause(attached: Attached) -> Iterator[Reason]:
    """Say why nothing of it starts, whether anybody has paused it yet or not."""
    if attached.paused:
        why = f": {attached.paused_reason}" if attached.paused_reason else ""
        yield Reason("paused", f"paused{why}; runs that wait start after walagent resume")
    elif attached.lost:
        yield Reason("paused", f"about to be paused: {attached.lost}")


def _missing(facts: Facts) -> Iterator[Reason]:
    """Name what can have kept a change from starting a run, the certain reasons first."""
    attachment = facts.attached.attachment
    if not facts.attached.active:
        text = f"version {attachment.version} waits for the reader to come to it"
        yield Reason("not_active", text)
    yield from _pause(facts.attached)
    if facts.condition == "raises":
        yield Reason("condition", f"its condition raises an error on this row: {facts.problem}")
    if facts.condition == "false":
        text = f"its condition is not true of the row now: {attachment.trigger.condition}"
        yield Reason("condition", text)
    yield from _earlier(facts.attached, facts.row)
    yield from _possible(attachment)


def _earlier(attached: Attached, row: PresentRow | None) -> Iterator[Reason]:
    """Tell of a row that was there before the attachment, where the server knows its age."""
    if attached.backfill in {"pending", "running"}:
        yield Reason("backfill", "its backfill is not done yet", certain=False)
    if row is None or attached.backfill is not None:
        return
    if row.changed_at is None or row.changed_at < attached.attached_at:
        since = f"{attached.attached_at:%Y-%m-%d %H:%M:%S %Z}"
        yield Reason(
            "before_attach",
            f"the row was last changed before it was attached ({since})",
            certain=row.changed_at is not None,
        )


def _possible(attachment: Attachment) -> Iterator[Reason]:
    wanted = ", ".join(op.value for op in Op if op in attachment.trigger.ops)
    if attachment.trigger.ops < {Op.INSERT, Op.UPDATE, Op.DELETE}:
        yield Reason("operation", f"it acts on {wanted} alone", certain=False)
    if attachment.target.columns is not None and Op.UPDATE in attachment.trigger.ops:
        columns = ", ".join(sorted(attachment.target.columns))
        yield Reason("columns", f"an update must touch one of {columns}", certain=False)
    if Op.UPDATE in attachment.trigger.ops or Op.DELETE in attachment.trigger.ops:
        yield Reason("own_write", "it does not act on what its own runs write", certain=False)
    yield Reason(
        "depth",
        f"it acts on agents' writes up to {attachment.trigger.max_depth} agents deep"
        if attachment.trigger.max_depth
        else "it does not act on what agents write",
        certain=False,
    )
