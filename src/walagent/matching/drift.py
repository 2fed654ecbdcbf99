"""What an attachment needs of its table, held against the table as it was at a change.  Pure.

SQL agent_internal.drift_of() asks the same of the table as it is now, and more; but a change may
be of a time when the table looked different, and is told by its relation alone.
"""

from collections.abc import Iterator

from walagent.attachment import Attachment
from walagent.change import Op, Relation


def lack(attachment: Attachment, relation: Relation, op: Op) -> str:
    """Say what such a change of this relation does not bring that the attachment needs.

    "" if nothing.  A relation without columns was not described, and lacks nothing that we know of.
    """
    if not relation.columns:
        return ""
    there = {column.name for column in relation.columns}
    table = f"{relation.schema}.{relation.name}"
    for name, use in _needs(attachment):
        if name not in there:
            return f'{table} has no column "{name}" any more, which {use}'
    if op not in {Op.UPDATE, Op.DELETE} or relation.oid == 0:  # 0: nobody told its identity
        return ""
    told = {column.name for column in relation.columns if column.in_key}
    for name in attachment.trigger.old_columns:
        if name not in told:
            return (
                f'the replica identity of {table} does not carry the old "{name}" any more,'
                " which the condition reads"
            )
    return ""


def _needs(attachment: Attachment) -> Iterator[tuple[str, str]]:
    """Every column that is needed, and what for."""
    yield from ((name, "was in its primary key") for name in attachment.target.key_columns)
    yield from ((name, "the condition reads") for name in attachment.trigger.condition_columns)
    yield from ((name, "is named in columns") for name in sorted(attachment.target.columns or ()))
    yield from (
        (name, "the ordering key is made of") for name in attachment.queueing.ordering_key or ()
    )
    yield from ((name, "is named in writes") for name in attachment.target.writes)
    for tool in attachment.agent.tools:
        for argument, column in tool.bind.items():
            yield column, f'tool {tool.name} is given as "{argument}"'
