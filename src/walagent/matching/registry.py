"""The attachments in effect at the reader's place in the WAL.

The table `agent.attachment` is itself in the publication.  So the registry changes exactly where
an attaching transaction stands among the others, and the same stretch of WAL read again after a
crash finds the same attachments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import orjson

from walagent.attachment import Attachment
from walagent.change import UNCHANGED, Change, Op, Relation
from walagent.errors import DecodeError
from walagent.matching.drift import lack

K = TypeVar("K")
_OWN = ("agent", "attachment")
_MOST_SHAPES = 10_000  # relations remembered; more only where tables change without end


@dataclass(frozen=True, slots=True)
class Attached:
    """A version of an attachment comes into effect."""

    attachment: Attachment
    definition: str


@dataclass(frozen=True, slots=True)
class Detached:
    """An attachment is gone."""

    attachment_id: int


def is_ours(relation: Relation) -> bool:
    """Whether a relation is the table of attachments."""
    return (relation.schema, relation.name) == _OWN


def read_attaching(change: Change) -> Attached | Detached | None:
    """Read what a change of `agent.attachment` means; None for one that changes no version.

    Raises:
        DecodeError: the row is not what our own trigger writes.
    """
    if change.op is Op.DELETE and change.old is not None:
        return Detached(_number(change.old.get("id")))
    if change.op is Op.TRUNCATE or change.new is None:
        return None
    definition = change.new.get("definition")
    if definition is UNCHANGED or definition is None:
        return None  # only an update that leaves the version alone leaves it untouched
    try:
        return Attached(Attachment.from_json(orjson.loads(str(definition))), str(definition))
    except (KeyError, TypeError, ValueError) as error:
        raise DecodeError(
            f"agent.attachment holds a definition we cannot read: {error!r}", offset=0
        ) from error


class Registry:
    """Attachments by relation: by its oid, for a table keeps that under another name, and a new
    table of the old name has another.  By its name only where the plug-in tells no oid.
    """

    def __init__(self, attachments: Iterable[Attachment] = ()) -> None:
        self._by_id: dict[int, Attachment] = {}
        self._by_oid: dict[int, list[Attachment]] = {}
        self._by_name: dict[tuple[str, str], list[Attachment]] = {}
        # What attachments lack of relations as they were described, by the identity of these: each
        # description is one object, which its changes share.
        self._lacks: dict[tuple[int, Op], tuple[Relation, Mapping[int, str]]] = {}
        self.described = False  # whether an attached table was, since somebody last looked
        for attachment in attachments:
            self.put(attachment)

    def put(self, attachment: Attachment) -> bool:
        """Let a version be in effect; False when it was already."""
        if self._by_id.get(attachment.id) == attachment:
            return False
        self.remove(attachment.id)
        self._by_id[attachment.id] = attachment
        self._by_oid.setdefault(attachment.target.relation_oid, []).append(attachment)
        self._by_name.setdefault(attachment.target.relation, []).append(attachment)
        self._lacks.clear()
        return True

    def remove(self, attachment_id: int) -> None:
        """Let an attachment be gone."""
        if former := self._by_id.pop(attachment_id, None):
            _take_out(self._by_oid, former.target.relation_oid, attachment_id)
            _take_out(self._by_name, former.target.relation, attachment_id)
            self._lacks.clear()

    def of(self, relation: Relation) -> list[Attachment]:
        """Find the attachments of a relation."""
        if relation.oid:
            return self._by_oid.get(relation.oid, [])
        return self._by_name.get((relation.schema, relation.name), [])

    def lacks(self, relation: Relation, op: Op) -> Mapping[int, str]:
        """Say which attachments a change of a relation has nothing to stand on for, and why."""
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
        """Every relation with an attachment, by name."""
        return frozenset(self._by_name)

    def __iter__(self):  # noqa: ANN204 - Iterator[Attachment], inferred
        """Go through all attachments."""
        return iter(self._by_id.values())


def _take_out(index: dict[K, list[Attachment]], key: K, attachment_id: int) -> None:
    rest = [a for a in index[key] if a.id != attachment_id]
    if rest:
        index[key] = rest
    else:
        del index[key]


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise DecodeError("agent.attachment's key is not a number", offset=0)
    return value
