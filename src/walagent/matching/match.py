"""Which attachments a change concerns, by everything but their conditions.

operation wanted → not the attachment's own write → not too deep → a watched column touched
"""

from collections.abc import Iterable, Iterator, Mapping
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
class TooDeep:
    """Agents have answered agents often enough; recorded as a skipped run."""

    attachment: Attachment
    change: Change
    origin: Origin


def matches(
    change: Change,
    attachments: Iterable[Attachment],
    origin: Origin | None,
    lacks: Mapping[int, str] | None = None,
) -> Iterator[Match | TooDeep]:
    """Find what a change starts.

    Args:
        origin: the run that wrote the change, None for people and applications.  Its own
            attachment never reacts to it.
        lacks: by attachment what its table does not have any more.
    """
    for attachment in attachments:
        if change.op not in attachment.trigger.ops:
            continue
        if origin is not None and origin.attachment_id == attachment.id:
            continue
        lack = lacks.get(attachment.id, "") if lacks else ""
        if not lack and not touches(change, attachment):
            continue
        if origin is not None and origin.depth + 1 > attachment.trigger.max_depth:
            if attachment.trigger.max_depth > 0:
                yield TooDeep(attachment, change, origin)
            continue
        yield Match(attachment, change, origin, lack)


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
