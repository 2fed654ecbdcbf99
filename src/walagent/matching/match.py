"""Select the attachments that a change can start, without evaluating conditions.

operation matches → not the attachment's own write → not too deep → a watched column changed
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from walagent.attachment import Attachment
from walagent.change import UNCHANGED, Change, Op
from walagent.matching.origin import Origin


@dataclass(frozen=True, slots=True)
class Match:
    """An attachment that acts on a change if its condition holds.

    Args:
        lack: what the change lacks and the attachment needs: its evaluation is deferred.
    """

    attachment: Attachment
    change: Change
    origin: Origin | None
    lack: str = ""


@dataclass(frozen=True, slots=True)
class TooDeep:
    """The chain of runs has reached `max_depth`; recorded as a skipped run."""

    attachment: Attachment
    change: Change
    origin: Origin


def matches(
    change: Change,
    attachments: Iterable[Attachment],
    origin: Origin | None,
    lacks: Mapping[int, str] | None = None,
) -> Iterator[Match | TooDeep]:
    """Yield what a change starts.

    Args:
        origin: the run that wrote the change, None for people and applications.  Its own
            attachment does not react to it.
        lacks: by attachment ID, what its table lacks.
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
    """Return whether an update changes a column that the attachment names in `columns`.

    If the WAL does not have the old value (replica identity other than full), it is assumed.
    """
    if change.op is not Op.UPDATE or attachment.target.columns is None or change.new is None:
        return True
    old = change.old or {}
    return any(
        name not in old or old[name] != value
        for name, value in change.new.items()
        if name in attachment.target.columns and value is not UNCHANGED
    )
