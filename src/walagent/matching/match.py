"""Which attachments a change concerns, by everything but their conditions.

operation wanted → not the attachment's own write → not too deep → a watched column touched
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from walagent.attachment import Attachment
from walagent.change import UNCHANGED, Change, Op
from walagent.matching.origin import Origin


@dataclass(frozen=True, slots=True)
class Match:
    """An attachment acts on a change, if its condition holds.

    Args:
        lack: what the change does not bring that the attachment needs: then nobody can evaluate it.
    """

    attachment: Attachment
    change: Change
    origin: Origin | None
    lack: str = ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Changes of one relation that may become matches, all for the same reason.

    A million rows of one commit share what they have in common: see `Match` for the fields.
    """

    attachment: Attachment
    changes: Sequence[Change]
    origin: Origin | None
    lack: str = ""

    def matches(self) -> Iterator[Match]:
        """Give the matches that they become if the condition holds for each."""
        for change in self.changes:
            yield Match(self.attachment, change, self.origin, self.lack)


@dataclass(frozen=True, slots=True)
class TooDeep:
    """Agents have answered agents often enough; recorded as a skipped run."""

    attachment: Attachment
    change: Change
    origin: Origin


def alike(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Cut changes where their relation or their operation is another."""
    start, first = 0, changes[0]
    relation, op = first.relation, first.op
    for n, change in enumerate(changes):
        if change.relation is not relation or change.op is not op:
            yield changes[start:n]
            start, relation, op = n, change.relation, change.op
    yield changes[start:] if start else changes


def matches(
    changes: Sequence[Change],
    attachments: Iterable[Attachment],
    origin: Origin | None,
    lacks: Mapping[int, str] | None = None,
) -> Iterator[Candidates | TooDeep]:
    """Find what changes of one relation and one operation start.

    Args:
        origin: the run that wrote the changes, None for people and applications.  Its own
            attachment never reacts to them.
        lacks: by attachment what its table does not have any more.
    """
    op = changes[0].op
    for attachment in attachments:
        if op not in attachment.trigger.ops:
            continue
        if origin is not None and origin.attachment_id == attachment.id:
            continue
        lack = lacks.get(attachment.id, "") if lacks else ""
        touching = changes
        if not lack and op is Op.UPDATE and attachment.target.columns is not None:
            touching = [change for change in changes if touches(change, attachment)]
        if not touching:
            continue
        if origin is None or origin.depth + 1 <= attachment.trigger.max_depth:
            yield Candidates(attachment, touching, origin, lack)
        elif attachment.trigger.max_depth > 0:
            yield from (TooDeep(attachment, change, origin) for change in touching)


def touches(change: Change, attachment: Attachment) -> bool:
    """Whether an update touches a column that the attachment names in `columns`.

    Where the WAL does not carry the old value (replica identity other than full), it may.
    """
    if change.op is not Op.UPDATE or attachment.target.columns is None or change.new is None:
        return True
    old = change.old or {}
    return any(
        name not in old or old[name] != value
        for name, value in change.new.items()
        if name in attachment.target.columns and value is not UNCHANGED
    )
