"""The attachments in effect at the reader's position in the WAL.

The table `agent.attachment` is part of the publication.  So an attaching transaction changes the
registry at its place among the others, and rereading the same WAL after a crash has the same
result.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import orjson

from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Change, Op, Relation, Value
from walagent.domain.tenant import Actor
from walagent.errors import DecodeError
from walagent.matching.canary import Canary
from walagent.matching.drift import lack
from walagent.matching.match import wakes_unasked

K = TypeVar("K")
_OWN = ("agent", "attachment")
_EVENTS = ("agent", "event")
_MOST_SHAPES = 10_000  # relations kept; more occur only if tables change continually


@dataclass(frozen=True, slots=True)
class VersionActivated:
    """A version of an attachment takes effect, or its canary changes.

    Args:
        attachment, definition: None: that of the version in effect.
        share: of the canary; None: there is no canary.
        shadow: whether the canary is a shadow.
        canary, canary_definition: None: that of the canary in effect, if there is one.
    """

    attachment_id: int
    attachment: Attachment | None
    definition: str | None
    share: float | None = None
    canary: Attachment | None = None
    canary_definition: str | None = None
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class AttachmentRemoved:
    """An attachment was removed."""

    attachment_id: int


def is_ours(relation: Relation) -> bool:
    """Return whether a relation is the table of attachments."""
    return (relation.schema, relation.name) == _OWN


def holds_events(relation: Relation) -> bool:
    """Return whether a relation is the table of events of threads."""
    return (relation.schema, relation.name) == _EVENTS


def read_attaching(change: Change) -> VersionActivated | AttachmentRemoved | None:
    """Decode a change of `agent.attachment`; None if it is of no row.

    Raises:
        DecodeError: the row is not one that walagent's trigger writes.
    """
    if change.op is Op.DELETE and change.old is not None:
        return AttachmentRemoved(_number(change.old.get("id")))
    if change.op is Op.TRUNCATE or change.new is None:
        return None
    share = change.new.get("canary_share")
    try:
        return VersionActivated(
            _number(change.new.get("id")),
            *_read_definition(change.new.get("definition")),
            None if share is None else float(str(share)),
            *_read_definition(change.new.get("canary_definition")),
            shadow=change.new.get("canary_shadow") is True,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DecodeError(f"invalid definition in agent.attachment: {error!r}", offset=0) from error


def _read_definition(text: Value) -> tuple[Attachment, str] | tuple[None, None]:
    if text is UNCHANGED or text is None:
        return None, None  # only an update that keeps the version leaves it unchanged
    return Attachment.from_json(orjson.loads(str(text))), str(text)


class Registry:
    """Attachments by the OID of their relation, which a renamed table keeps and a new table of the
    old name does not have.  By name only if the plugin sends no OID.
    """

    def __init__(
        self, attachments: Iterable[Attachment] = (), canaries: Iterable[Canary] = ()
    ) -> None:
        self._canaries = {canary.attachment.id: canary for canary in canaries}
        self._by_id: dict[int, Attachment] = {}
        self._by_oid: dict[int, list[Attachment]] = {}
        self._by_name: dict[tuple[str, str], list[Attachment]] = {}
        # What attachments lack, by the identity of the relation's description: all changes of one
        # description share one object.
        self._lacks: dict[tuple[int, Op], tuple[Relation, Mapping[int, str]]] = {}
        self._in_threads: Mapping[Actor, Attachment] = {}  # replaced, never changed
        self._asked = False  # whether one of them has a condition, which any event can meet
        self.described = False  # whether an attached table was described since the last check
        for attachment in attachments:
            self.put(attachment)

    def put(self, attachment: Attachment) -> bool:
        """Activate a version; False if it was active."""
        if self._by_id.get(attachment.id) == attachment:
            return False
        self._remove(attachment.id)
        self._by_id[attachment.id] = attachment
        self._by_oid.setdefault(attachment.target.relation_oid, []).append(attachment)
        self._by_name.setdefault(attachment.target.relation, []).append(attachment)
        if attachment.turns is not None:
            self._listen({**self._in_threads, attachment.actor: attachment})
        self._lacks.clear()
        return True

    def put_canary(
        self,
        attachment_id: int,
        share: float | None,
        attachment: Attachment | None,
        *,
        shadow: bool = False,
    ) -> bool:
        """Begin, change or end the canary of an attachment; False if it is as it was.

        Args:
            share: None: it ends.
            attachment: the version of the canary; None: the one that it has.
            shadow: whether it is a shadow.
        """
        former = self._canaries.pop(attachment_id, None)
        if attachment is None and former is not None:
            attachment = former.attachment
        if share is not None and attachment is not None:
            self._canaries[attachment_id] = Canary(attachment, share, shadow)
        return self._canaries.get(attachment_id) != former

    def canary_of(self, attachment_id: int) -> Canary | None:
        """Return the canary of an attachment."""
        return self._canaries.get(attachment_id)

    def get(self, attachment_id: int) -> Attachment | None:
        """Return the version of an attachment that is in effect, beside its canary."""
        return self._by_id.get(attachment_id)

    def remove(self, attachment_id: int) -> None:
        """Remove an attachment, and its canary."""
        self._canaries.pop(attachment_id, None)
        self._remove(attachment_id)

    def _remove(self, attachment_id: int) -> None:
        if former := self._by_id.pop(attachment_id, None):
            _take_out(self._by_oid, former.target.relation_oid, attachment_id)
            _take_out(self._by_name, former.target.relation, attachment_id)
            if former.turns is not None:
                others = self._in_threads.items()
                self._listen({actor: one for actor, one in others if one is not former})
            self._lacks.clear()

    def _listen(self, in_threads: Mapping[Actor, Attachment]) -> None:
        self._in_threads = in_threads
        self._asked = any(each.trigger.condition is not None for each in in_threads.values())

    @property
    def in_threads(self) -> Mapping[Actor, Attachment]:
        """Return the attachments on events of threads, by agent, as they are now."""
        return self._in_threads

    def may_wake(self, event: Change) -> bool:
        """Return whether an event can wake an agent, if there is one in its thread."""
        new = event.new or {}
        author = Actor(str(new.get("tenant")), str(new.get("author")))
        return self._asked or wakes_unasked(event, by_agent=author in self._in_threads)

    def of(self, relation: Relation) -> list[Attachment]:
        """Return the attachments of a relation."""
        if relation.oid:
            return self._by_oid.get(relation.oid, [])
        return self._by_name.get((relation.schema, relation.name), [])

    def versions_of(self, relation: Relation) -> list[Attachment]:
        """Return the attachments of a relation, and the versions of their canaries."""
        found = self.of(relation)
        canaries = [canary.attachment for a in found if (canary := self._canaries.get(a.id))]
        return [*found, *canaries] if canaries else found

    def lacks(self, relation: Relation, op: Op) -> Mapping[int, str]:
        """Return the attachments that lack something in a change of a relation, with the reason."""
        key = id(relation), op
        known = self._lacks.get(key)
        if known is not None and known[0] is relation:
            return known[1]
        if len(self._lacks) >= _MOST_SHAPES:
            self._lacks.clear()
        found = {a.id: why for a in self.of(relation) if (why := lack(a, relation, op))}
        self._lacks[key] = relation, found
        self.described = True
        return found

    @property
    def relations(self) -> frozenset[tuple[str, str]]:
        """Return the names of all relations with an attachment."""
        return frozenset(self._by_name)

    @property
    def operations(self) -> Mapping[tuple[str, str], frozenset[Op]]:
        """Every relation with an attachment, by name, and the operations that start runs."""
        return {
            name: frozenset[Op]().union(*(each.trigger.ops for each in attachments))
            for name, attachments in self._by_name.items()
        }

    def __iter__(self):  # noqa: ANN204 - Iterator[Attachment], inferred
        """Iterate over all attachments."""
        return iter(self._by_id.values())


def _take_out(index: dict[K, list[Attachment]], key: K, attachment_id: int) -> None:
    rest = [a for a in index[key] if a.id != attachment_id]
    if rest:
        index[key] = rest
    else:
        del index[key]


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise DecodeError("agent.attachment has a key that is not a number", offset=0)
    return value
