"""Select the attachments that a change can start, without evaluating conditions.

operation matches → not the attachment's own write → not too deep → a watched column changed
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Change, Op
from walagent.domain.tenant import Actor
from walagent.matching.origin import Origin


@dataclass(frozen=True, slots=True)
class Match:
    """An attachment that acts on a change if its condition holds.

    Args:
        lack: what the change lacks and the attachment needs: its evaluation is deferred.
        pinned: the version of the attachment that is executed; None: this one.
        shadow: the version whose trial follows the run; None: no trial does.
    """

    attachment: Attachment
    change: Change
    origin: Origin | None
    lack: str = ""
    pinned: int | None = None
    shadow: int | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Changes of one relation that may become matches, all for the same reason.

    A million rows of one commit share what they have in common: see `Match` for the fields.
    """

    attachment: Attachment
    changes: Sequence[Change]
    origin: Origin | None
    lack: str = ""
    pinned: int | None = None
    shadow: int | None = None

    def matches(self) -> Iterator[Match]:
        """Yield a match for each change, as if the condition held for all."""
        return map(self.match, self.changes)

    def match(self, change: Change) -> Match:
        """Return the match of a change, as if the condition held."""
        return Match(self.attachment, change, self.origin, self.lack, self.pinned, self.shadow)


def wakes_unasked(event: Change, *, by_agent: bool) -> bool:
    """Return whether an event wakes agents without a condition: a text of who is not an agent."""
    return not by_agent and (event.new or {}).get("type") == "text"


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates of one attachment and one relation, and their changes in one row."""

    attachment: Attachment
    candidates: Sequence[Candidates]
    changes: Sequence[Change]

    @classmethod
    def of(cls, candidates: Sequence[Candidates]) -> "Group":
        """Put the changes in one row."""
        first = candidates[0]
        if len(candidates) == 1:
            return cls(first.attachment, candidates, first.changes)
        changes = list(chain.from_iterable(each.changes for each in candidates))
        return cls(first.attachment, candidates, changes)

    def matches(self) -> Iterator[Match]:
        """Yield a match for each change, as if the condition held for all."""
        return chain.from_iterable(each.matches() for each in self.candidates)


@dataclass(frozen=True, slots=True)
class TooDeep:
    """The chain of runs has reached `max_depth`; recorded as a skipped run."""

    attachment: Attachment
    change: Change
    origin: Origin


@dataclass(frozen=True, slots=True)
class Posted:
    """Events that were posted in threads: the members of a thread may be woken.

    Args:
        attachments: of agents in threads, by agent, in effect at this position.
    """

    attachments: Mapping[Actor, Attachment]
    changes: Sequence[Change]
    origin: Origin | None


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
    """Yield what changes of one relation and one operation start.

    Args:
        origin: the run that wrote the changes, None for people and applications.  Its own
            attachment does not react to them, and none to those of a revert.
        lacks: by attachment ID, what its table lacks.
    """
    op = changes[0].op
    if origin is not None and origin.reverts:
        return
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
    """Return whether an update changes a column that the attachment names in `columns`.

    If the WAL does not have the old value (replica identity other than full), it is assumed.  With
    `only_unchanged`, so is an update of the key: a run of the row as it was finds it no more.
    """
    target, old = attachment.target, change.old or {}
    if change.op is not Op.UPDATE or target.columns is None or change.new is None:
        return True
    if target.only_unchanged and any(
        name in old and old[name] != change.new.get(name) for name in target.key_columns
    ):
        return True
    return any(
        name not in old or old[name] != value
        for name, value in change.new.items()
        if name in target.columns and value is not UNCHANGED
    )
