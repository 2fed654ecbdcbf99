"""Which of its two versions an attachment with a canary uses for a change.  Pure.

It follows from the key of the change, the version and the share of the canary, and from its
position in the WAL: read again after a crash, a change gets the same version.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

from walagent.domain.attachment import Attachment
from walagent.domain.change import Change
from walagent.matching import document
from walagent.matching.match import Candidates, TooDeep

_BYTES = 8  # of the hash


@dataclass(frozen=True, slots=True)
class Canary:
    """A version of an attachment that a share of the ordering keys gets.

    Args:
        share: more than 0 and less than 1; of a shadow 1 at most.
        shadow: whether the changes keep the version that there is, and the runs of this one are
            trials beside theirs.
    """

    attachment: Attachment
    share: float
    shadow: bool = False

    def takes(self, key: str) -> bool:
        """Return whether a key is among the share; it remains there while the share grows."""
        named = f"{self.attachment.id}/{self.attachment.version}/{key}"
        hashed = blake2b(named.encode("utf-8", "surrogateescape"), digest_size=_BYTES).digest()
        return int.from_bytes(hashed) < self.share * 2 ** (8 * _BYTES)


def key_of(change: Change, attachment: Attachment) -> str:
    """Return what keeps the changes of a row together.

    That is the ordering key; without one the primary key; without that the position.
    """
    key = document.ordering_key_of(change, attachment)
    if key is None:
        key = document.key_of(document.row_of(change), attachment)
    place = f"{change.commit_lsn} {change.ordinal}"
    return place if key is None else key  # planted: canary-by-position


def shared(found: Candidates | TooDeep, canary: Canary | None) -> Iterator[Candidates | TooDeep]:
    """Yield what changes start, with the attachment as the version that each change gets."""
    if canary is None or (canary.shadow and isinstance(found, TooDeep)):
        yield found
    elif isinstance(found, TooDeep):
        takes = canary.takes(key_of(found.change, found.attachment))
        yield replace(found, attachment=canary.attachment) if takes else found
    else:
        taken = [canary.takes(key_of(change, found.attachment)) for change in found.changes]
        version = canary.attachment
        other = {"shadow": version.version} if canary.shadow else {"attachment": version}
        for wanted, differs in ((False, {}), (True, other)):
            changes = [
                c for c, is_taken in zip(found.changes, taken, strict=True) if is_taken is wanted
            ]
            if changes:
                yield replace(found, changes=changes, **differs)
