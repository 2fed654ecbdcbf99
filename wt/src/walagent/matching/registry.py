"""The attachments in effect at the reader's place in the WAL.

The table `agent.attachment` is itself in the publication.  So the registry changes exactly where
an attaching transaction stands among the others, and the same stretch of WAL read again after a
crash finds the same attachments.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from walagent.attachment import Attachment
from walagent.change import UNCHANGED, Change, Op, Relation
from walagent.errors import DecodeError

_OWN = ("agent", "attachment")


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
    """Attachments by relation."""

    def __init__(self, attachments: Iterable[Attachment] = ()) -> None:
        self._by_id: dict[int, Attachment] = {}
        self._by_relation: dict[tuple[str, str], list[Attachment]] = {}
        for attachment in attachments:
            self.put(attachment)

    def put(self, attachment: Attachment) -> bool:
        """Let a version be in effect; False when it was already."""
        if self._by_id.get(attachment.id) == attachment:
            return False
        self.remove(attachment.id)
        self._by_id[attachment.id] = attachment
        self._by_relation.setdefault(attachment.relation, []).append(attachment)
        return True

    def remove(self, attachment_id: int) -> None:
        """Let an attachment be gone."""
        if former := self._by_id.pop(attachment_id, None):
            rest = [a for a in self._by_relation[former.relation] if a.id != attachment_id]
            if rest:
                self._by_relation[former.relation] = rest
            else:
                del self._by_relation[former.relation]

    def of(self, relation: Relation) -> list[Attachment]:
        """Find the attachments of a relation.

        One that was attached to a table which has since been dropped does not adopt a new table
        of the same name: the oid differs, where the plug-in tells it.
        """
        found = self._by_relation.get((relation.schema, relation.name), [])
        if relation.oid == 0 or all(a.relation_oid == relation.oid for a in found):
            return found
        return [a for a in found if a.relation_oid == relation.oid]

    @property
    def relations(self) -> frozenset[tuple[str, str]]:
        """Every relation with an attachment."""
        return frozenset(self._by_relation)

    def __iter__(self):  # noqa: ANN204 - Iterator[Attachment], inferred
        """Go through all attachments."""
        return iter(self._by_id.values())


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise DecodeError("agent.attachment's key is not a number", offset=0)
    return value
