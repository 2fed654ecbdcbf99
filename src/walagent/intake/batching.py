"""Collect what the transactions of a stream start.  No I/O.

A small transaction is collected whole and joins the group for the next commit of the checkpoint.  A
large one reaches a limit while it is still open, and is ingested piece by piece.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from walagent.domain.attachment import Attachment
from walagent.domain.change import Begin, Change, Commit, Idle, Item, Op, OriginMarker, Piece
from walagent.intake.row_images import RowImages, may_need_images
from walagent.matching import document
from walagent.matching.canary import shared
from walagent.matching.corrections import Corrected, Corrections, Watched
from walagent.matching.match import Candidates, Posted, TooDeep, alike, matches
from walagent.matching.origin import Origin, author_of, origin_of, requested_run
from walagent.matching.registry import (
    AttachmentRemoved,
    Registry,
    VersionActivated,
    holds_events,
    is_ours,
    read_attaching,
)
from walagent.matching.row_changes import Recorded, Recording, ended
from walagent.postgres.lsn import Lsn
from walagent.store.checkpoint import VersionEffect
from walagent.telemetry import metrics

GROUP = 1000  # changes of whole transactions that are written in one commit
# Changes of an open transaction that are evaluated together.  Few of them may match, so a round
# trip should cover many; what the stream buffers is in memory in any case.
SPILL_AFTER = 4000
PORTION = 400  # runs of a large transaction in one statement: each is larger than its change
SPILL_WEIGHT = 4 << 20  # bytes; evaluating and writing them needs a multiple

Found = Candidates | Posted | TooDeep


@dataclass(slots=True)
class Batch:
    """Candidates for runs, and what else must commit with them."""

    found: list[tuple[Begin, Found]] = field(default_factory=list["tuple[Begin, Found]"])
    effects: list[VersionEffect] = field(default_factory=list[VersionEffect])
    seen: list[tuple[int, str]] = field(default_factory=list["tuple[int, str]"])
    recorded: Recorded = field(default_factory=Recorded)
    size: int = 0  # changes and rows
    weight: int = 0

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not (self.found or self.has_beside)

    @property
    def has_beside(self) -> bool:
        """Return whether there is something to write whatever the candidates come to."""
        return bool(self.effects or self.seen or self.recorded)

    def is_large(self, most: int) -> bool:
        """Return whether it must be written before more is added."""
        return self.size >= most or self.weight >= SPILL_WEIGHT

    def add(self, other: "Batch") -> None:
        """Add the batch of another transaction."""
        self.found.extend(other.found)
        if other.has_beside:
            self.effects.extend(other.effects)
            self.seen.extend(other.seen)
            self.recorded.extend(other.recorded)
        self.size += other.size
        self.weight += other.weight


@dataclass(slots=True)
class OpenTransaction:
    """The transaction whose commit has not arrived."""

    begin: Begin
    origin: Origin | None = None
    recording: Recording | None = None  # of a transaction of a run
    batch: Batch = field(default_factory=Batch)
    images: RowImages = field(default_factory=RowImages)
    has_changes: bool = False
    corrected: Corrected | None = None  # of a transaction of no run
    author: str | None = None  # who has signed it

    def cut(self) -> Batch:
        """Return what was collected so far, and forget it."""
        piece, self.batch = self.batch, Batch()
        if self.corrected is not None:
            piece.recorded.others.extend(self.corrected.cut(self.author))
        return piece


@dataclass(frozen=True, slots=True)
class Position:
    """A position between two transactions, for the checkpoint."""

    commit_lsn: Lsn  # of the last complete transaction
    end_lsn: Lsn  # everything before it is collected
    committed_at: datetime | None  # when that transaction committed


class Batcher:
    """Collects the items of one stream."""

    def __init__(self, registry: Registry, key: bytes, backfilling: set[int], start: Lsn) -> None:
        """Start with the attachments in effect at *start*.

        Args:
            key: `agent_internal.secret`, which signs origin markers.
            backfilling: attachments with a running backfill; updated here.
            start: everything before it is ingested.
        """
        self.registry = registry
        self._key = key
        self._backfilling = backfilling
        self.corrections = Corrections()
        self.open: OpenTransaction | None = None
        self.group = Batch()  # complete transactions
        self.attached: list[Attachment] = []  # took effect since the caller last cleared it
        self.commit_lsn = start  # of the last complete transaction
        self.committed_at: datetime | None = None
        self.passed = start  # everything before it is gathered

    def take(self, item: Item) -> None:
        """Process the next item."""
        match item:
            case Piece():
                self._take_piece(self._opened, item)
            case Begin():
                self.open = OpenTransaction(item)
            case Commit():
                self._complete(item)
            case OriginMarker():
                self._take_marker(self._opened, item)
            case Idle(wal_end) if self.open is None:
                self.passed = max(self.passed, wal_end)
            case _:
                pass

    @property
    def position(self) -> Position:
        """Return the end of the complete transactions."""
        return Position(self.commit_lsn, self.passed, self.committed_at)

    @property
    def _opened(self) -> OpenTransaction:
        assert self.open is not None  # noqa: S101 - the stream yields these only inside one
        return self.open

    def _take_marker(self, opened: OpenTransaction, marker: OriginMarker) -> None:
        xid = opened.begin.xid
        if (run_id := requested_run(marker, xid, self._key)) is not None:
            opened.batch.recorded.ended.append(ended(run_id, opened.begin))
        opened.author = author_of(marker, xid, self._key) or opened.author
        if opened.has_changes or opened.origin is not None:
            return  # ours stands first; whatever a tool says after it takes nothing back
        opened.origin = origin_of(marker, xid, self._key)
        if opened.origin is not None:
            opened.recording = Recording(opened.begin, opened.origin)

    def _take_piece(self, opened: OpenTransaction, piece: Piece) -> None:
        opened.has_changes = True  # planted: late-marker
        for changes in alike(piece.changes):
            relation = changes[0].relation
            if opened.recording is not None:
                weight = piece.weight * len(changes) // len(piece.changes)
                self._record(opened, opened.recording, changes, weight)
            elif watched := self.corrections.of(relation):
                weight = piece.weight * len(changes) // len(piece.changes)
                self._take_corrected(opened, watched, changes, weight)
            if is_ours(relation):
                for change in changes:
                    self._take_attaching(opened, change)
            elif holds_events(relation):
                self._take_events(
                    opened, changes, piece.weight * len(changes) // len(piece.changes)
                )
            elif attachments := self.registry.of(relation):
                weight = piece.weight * len(changes) // len(piece.changes)
                self._find(opened, changes, attachments, weight)

    def _record(
        self,
        opened: OpenTransaction,
        recording: Recording,
        changes: Sequence[Change],
        weight: int,
    ) -> None:
        """Record what a run changed."""
        entry = recording.take(changes)
        if entry is not None:
            relation = changes[0].relation
            self.corrections.wrote(relation, entry, self.registry.versions_of(relation))
            opened.batch.recorded.changes.append(entry)
            opened.batch.size += len(entry["rows"])
            opened.batch.weight += weight

    @staticmethod
    def _take_corrected(
        opened: OpenTransaction, watched: Watched, changes: Sequence[Change], weight: int
    ) -> None:
        """Collect what others changed of rows that agents wrote."""
        if rows := watched.take(changes):
            if opened.corrected is None:
                opened.corrected = Corrected(opened.begin)
            opened.corrected.add(changes[0].relation, rows)
            opened.batch.size += len(rows)
            opened.batch.weight += weight * len(rows) // len(changes)
            metrics.corrections_asked.inc(len(rows))

    def _take_events(self, opened: OpenTransaction, changes: Sequence[Change], weight: int) -> None:
        """Collect events of threads, whose members are looked up later."""
        if changes[0].op is not Op.INSERT or not self.registry.in_threads:
            return
        waking = [change for change in changes if self.registry.may_wake(change)]
        if not waking:
            return
        posted = Posted(self.registry.in_threads, waking, opened.origin)
        opened.batch.found.append((opened.begin, posted))
        opened.batch.size += len(waking)
        opened.batch.weight += weight * len(waking) // len(changes)

    def _find(
        self,
        opened: OpenTransaction,
        changes: Sequence[Change],
        attachments: Sequence[Attachment],
        weight: int,
    ) -> None:
        """Find what changes of one relation and one operation start."""
        begin, batch, op = opened.begin, opened.batch, changes[0].op
        relation = changes[0].relation
        lacks = self.registry.lacks(relation, op)
        completed: Mapping[int, Change] = {}
        if may_need_images(relation, attachments):
            completed = opened.images.complete(changes)
        for found in matches(changes, attachments, opened.origin, lacks):
            if completed and isinstance(found, Candidates):
                with_values = [completed.get(each.ordinal, each) for each in found.changes]
                found = replace(found, changes=with_values)  # noqa: PLW2901 - the same, completed
            canary = self.registry.canary_of(found.attachment.id)
            batch.found.extend((begin, part) for part in shared(found, canary))
            if isinstance(found, Candidates):
                batch.size += len(found.changes)
                batch.weight += weight
            else:
                batch.size += 1
        if self._backfilling and op is Op.INSERT:
            before = len(batch.seen)
            for change in changes:
                batch.seen.extend(self._seen(change, attachments))
            batch.size += len(batch.seen) - before

    def _take_attaching(self, opened: OpenTransaction, change: Change) -> None:
        """Put an attachment into effect, or remove it, at this position in the WAL."""
        lsn, effects = opened.begin.commit_lsn, opened.batch.effects
        match read_attaching(change):
            case VersionActivated() as activated:
                self._activate(activated, lsn, effects)
            case AttachmentRemoved(attachment_id):
                self.registry.remove(attachment_id)
                self._backfilling.discard(attachment_id)
                effects.append(VersionEffect(attachment_id, None, None, lsn))
            case _:
                pass

    def _activate(
        self, activated: VersionActivated, lsn: Lsn, effects: list[VersionEffect]
    ) -> None:
        """Put a version of an attachment and its canary into effect."""
        registry, attachment = self.registry, activated.attachment
        is_new = attachment is not None and registry.put(attachment)
        is_shared = registry.put_canary(
            activated.attachment_id, activated.share, activated.canary, shadow=activated.shadow
        )
        present = registry.get(activated.attachment_id)
        if present is None or not (is_new or is_shared):
            return
        canary = registry.canary_of(present.id)
        effects.append(
            VersionEffect(
                present.id,
                present.version,
                activated.definition,
                lsn,
                None if canary is None else canary.attachment.version,
                None if canary is None else activated.canary_definition,
                None if canary is None else canary.share,
                shadow=canary is not None and canary.shadow,
            )
        )
        if is_new:
            if present.trigger.backfill and present.version == 1:
                self._backfilling.add(present.id)
            self.attached.append(present)

    def _seen(self, change: Change, attachments: Iterable[Attachment]) -> Iterable[tuple[int, str]]:
        """Yield the rows of the stream that a running backfill must skip."""
        for attachment in attachments:
            if attachment.id in self._backfilling:
                yield attachment.id, document.key_of(change.new or {}, attachment) or ""

    def _complete(self, commit: Commit) -> None:
        if (recording := self._opened.recording) is not None:
            self._opened.batch.recorded.extend(recording.end())
        self.group.add(self._opened.cut())
        self.committed_at = self._opened.begin.committed_at
        self.open = None
        self.commit_lsn = commit.commit_lsn
        self.passed = max(self.passed, commit.end_lsn)  # planted: end-plus-one
