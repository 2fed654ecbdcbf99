"""Derive verdict and reasons from facts about a row and an attachment.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from walagent.domain.attachment import Attachment
from walagent.domain.change import Op
from walagent.store.people.explaining import AttachmentState, CurrentRow, ReaderState, RowRun

_CLOSE = 16 << 10  # bytes; the checkpoint advances when runs are ingested, so a short lag is usual


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason, as a code for programs and a sentence for people."""

    rule: str
    text: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one attachment."""

    attachment: str
    verdict: Literal["matched", "no run"]
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class AttachmentFacts:
    """The facts about one attachment and the row."""

    attached: AttachmentState
    runs: Sequence[RowRun]
    row: CurrentRow | None
    condition: Literal["none", "true", "false", "raises"]  # on the current row
    problem: str = ""  # the error that it raises


def explain_attachment(facts: AttachmentFacts) -> Verdict:
    """Derive the verdict on one attachment."""
    name = facts.attached.attachment.name
    if facts.runs:
        return Verdict(name, "matched", [*_told_runs(facts), *_pause(facts.attached)])
    return Verdict(name, "no run", list(_missing(facts)))


def reader_reasons(reader: ReaderState) -> Iterator[Reason]:
    """Yield the reasons that concern the reader."""
    if reader.ingested is None:
        yield Reason("slot_missing", "no WAL was read yet: walagent init, walagent run")
    elif not reader.slot_exists:
        yield Reason("slot_missing", "the slot does not exist: walagent doctor")
    elif not reader.reading:
        yield Reason("slot_behind", f"no reader is active; the checkpoint is at {reader.ingested}")
    elif reader.behind is not None and reader.behind > _CLOSE:
        yield Reason(
            "slot_behind",
            f"{reader.behind} bytes behind (at {reader.ingested} of {reader.written}): the change "
            "might not be ingested yet",
            certain=False,
        )
    if reader.gaps:
        text = "WAL was lost (walagent wal gaps --all): the change might be in it"
        yield Reason("gap", text, certain=False)


def _told_runs(facts: AttachmentFacts) -> Iterator[Reason]:
    for run in facts.runs:
        when = f" committed {run.committed_at:%Y-%m-%d %H:%M:%S %Z}" if run.committed_at else ""
        what = "the backfill" if run.reason == "backfill" else f"the {run.op}{when}"
        by = f", written by run {run.cause_run} (depth {run.depth})" if run.cause_run else ""
        error = f": {run.error}" if run.error else ""
        text = f"run {run.id} {run.state}, for {what}{by}{error}"
        yield Reason("depth" if run.state == "skipped" and run.depth else run.state, text)


def _pause(attached: AttachmentState) -> Iterator[Reason]:
    """Yield why the attachment starts no runs, if it is paused or about to be."""
    if attached.paused:
        why = f": {attached.paused_reason}" if attached.paused_reason else ""
        yield Reason("paused", f"paused{why}; queued runs start after walagent agents resume")
    elif attached.lost:
        yield Reason("paused", f"about to be paused: {attached.lost}")


def _missing(facts: AttachmentFacts) -> Iterator[Reason]:
    """Yield what might have kept a change from starting a run, certain reasons first."""
    attachment = facts.attached.attachment
    if not facts.attached.active:
        text = f"version {attachment.version} is not active: the reader has not reached it"
        yield Reason("not_active", text)
    yield from _pause(facts.attached)
    if facts.condition == "raises":
        yield Reason("condition", f"the condition raises an error on this row: {facts.problem}")
    if facts.condition == "false":
        text = f"the condition is not true for the current row: {attachment.trigger.condition}"
        yield Reason("condition", text)
    yield from _earlier(facts.attached, facts.row)
    yield from _possible(attachment)


def _earlier(attached: AttachmentState, row: CurrentRow | None) -> Iterator[Reason]:
    """Yield the reason of a row older than the attachment, if the server knows its age."""
    if attached.backfill in {"pending", "running"}:
        yield Reason("backfill", "the backfill is not finished", certain=False)
    if row is None or attached.backfill is not None:
        return
    if row.changed_at is None or row.changed_at < attached.attached_at:
        since = f"{attached.attached_at:%Y-%m-%d %H:%M:%S %Z}"
        yield Reason(
            "before_attach",
            f"the last change of the row is older than the attachment ({since})",
            certain=row.changed_at is not None,
        )


def _possible(attachment: Attachment) -> Iterator[Reason]:
    wanted = ", ".join(op.value for op in Op if op in attachment.trigger.ops)
    if attachment.trigger.ops < {Op.INSERT, Op.UPDATE, Op.DELETE}:
        yield Reason("operation", f"the attachment acts only on {wanted}", certain=False)
    if attachment.target.columns is not None and Op.UPDATE in attachment.trigger.ops:
        columns = ", ".join(sorted(attachment.target.columns))
        or_key = ", or the key" if attachment.target.only_unchanged else ""
        text = f"an update must change one of {columns}{or_key}"
        yield Reason("columns", text, certain=False)
    if missing := attachment.trigger.missing_old:
        columns = ", ".join(missing)
        yield Reason(
            "old_row",
            f"the condition reads {columns} from old: NULL unless the replica identity is full",
            certain=False,
        )
    if Op.UPDATE in attachment.trigger.ops or Op.DELETE in attachment.trigger.ops:
        yield Reason("own_write", "the attachment ignores its own runs' writes", certain=False)
    yield Reason(
        "depth",
        f"the attachment acts on agents' writes up to depth {attachment.trigger.max_depth}"
        if attachment.trigger.max_depth
        else "the attachment ignores agents' writes",
        certain=False,
    )
