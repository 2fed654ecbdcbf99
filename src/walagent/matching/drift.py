"""Check what an attachment needs against its table as of a change.  Pure.

SQL agent_internal.drift_of() checks the same and more against the current table; but a change can
be older than an ALTER TABLE, and then only its relation describes the table.
"""

from collections.abc import Iterator

from walagent.domain.attachment import Attachment
from walagent.domain.change import Op, Relation


def lack(attachment: Attachment, relation: Relation, op: Op) -> str:
    """Return what the attachment needs and such a change of this relation lacks, "" if nothing.

    A relation without columns was not described, and counts as complete.
    """
    if not relation.columns:
        return ""
    there = {column.name for column in relation.columns}
    table = f"{relation.schema}.{relation.name}"
    for name, use in _needs(attachment):
        if name not in there:
            return f'column "{name}" of {table} does not exist; it is used by {use}'
    if op not in {Op.UPDATE, Op.DELETE} or relation.oid == 0:  # 0: its replica identity is unknown
        return ""
    sent = {column.name for column in relation.columns if column.in_key}
    for name in attachment.trigger.old_columns:
        if name not in sent:
            return (
                f'the replica identity of {table} does not include column "{name}",'
                " which the condition reads from old"
            )
    return ""


def _needs(attachment: Attachment) -> Iterator[tuple[str, str]]:
    """Yield every column that the attachment needs, with its use."""
    yield from ((name, "the primary key") for name in attachment.target.key_columns)
    yield from ((name, "the condition") for name in attachment.trigger.condition_columns)
    yield from ((name, "columns") for name in sorted(attachment.target.columns or ()))
    yield from ((name, "the ordering key") for name in attachment.queueing.ordering_key or ())
    yield from ((name, "writes") for name in attachment.target.writes)
    for tool in attachment.agent.tools:
        for argument, column in tool.bind.items():
            yield column, f'argument "{argument}" of tool "{tool.name}"'
