"""Collect the facts that explain why a row has a run, or none, and format them.

Changes are not kept once the WAL is recycled.  Without a run, some reasons are therefore certain
and others only possible.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import islice, product
from typing import Any, Literal

from psycopg import AsyncConnection, Error

from walagent.config import Config
from walagent.domain.attachment import Attachment
from walagent.domain.change import Change, Op
from walagent.errors import ConfigError, PreconditionError
from walagent.explain.verdict import (
    AttachmentFacts,
    Reason,
    Verdict,
    explain_attachment,
    reader_reasons,
)
from walagent.intake.conditions import open_evaluator
from walagent.intake.verdicts import Deferred, Raised
from walagent.matching.document import joined
from walagent.matching.match import Match
from walagent.postgres.lsn import Lsn
from walagent.store import applying
from walagent.store.errors import translating
from walagent.store.people import explaining
from walagent.store.people.explaining import CurrentRow, KeyedTable, ReaderState, RowRun
from walagent.store.role_reader import open_role_reader

Connection = AsyncConnection[Any]
_KEYS = 2000  # texts of a key of many columns
ConditionState = Literal["none", "true", "false", "raises"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The runs of a row, and the reasons for and against them."""

    table: KeyedTable
    key: str
    present: bool | None  # None: not known, no agent of the table can read it
    runs: Sequence[RowRun]
    verdicts: Sequence[Verdict]
    reader: ReaderState
    reasons: Sequence[Reason]  # that concern the reader, and so all attachments


async def explain(
    conn: Connection, config: Config, name: str, key: str, worker: Connection | None = None
) -> Explanation:
    """Check everything that determines whether a change of a row starts runs.

    Args:
        conn: in autocommit, without a transaction: conditions are evaluated in their own.
        key: the primary key's value; with several columns, the values separated by commas.
        worker: reads the row and evaluates conditions, as the roles of agents; None: *conn*.

    Raises:
        ConfigError: the table does not exist, or *key* does not fit its primary key.
    """
    worker = worker or conn
    with translating():
        relation = await applying.find_table(conn, name)
    table = await explaining.describe_table(conn, relation)
    values = _key_values(table, key)
    attachments = await explaining.attached_to(conn, relation)
    present: bool | None = None
    rows = dict[int, CurrentRow | None]()
    keys = {key}
    async with open_role_reader(worker) as reader:
        for attached in attachments if values else ():
            run_as = attached.attachment.authority.run_as
            # Without privileges on the row or the role, the other reasons are shown.
            with suppress(Error, PreconditionError):
                columns = await explaining.readable_columns(conn, table, run_as)
                row = await explaining.present_row(reader, run_as, table, values, columns)
                rows[attached.attachment.id] = row
                present = present or row is not None
                if row is not None:  # equal values can have other texts: citext, interval
                    keys |= keys_of([[str(row.values[name])] for name in table.key_columns])
                keys |= keys_of(await explaining.texts_of_key(reader, run_as, table, values))
    runs = await explaining.runs_of(conn, table, sorted(keys))
    verdicts = list[Verdict]()
    for attached in attachments:
        attachment = attached.attachment
        row = rows.get(attachment.id)
        own = [run for run in runs if run.attachment_id == attachment.id]
        condition = await _condition(worker, attachment, row)
        verdicts.append(explain_attachment(AttachmentFacts(attached, own, row, *condition)))
    state = await explaining.reader_state(conn, config.replication.slot)
    return Explanation(table, key, present, runs, verdicts, state, list(reader_reasons(state)))


def _key_values(table: KeyedTable, key: str) -> list[str]:
    values = split_key(key) if len(table.key_columns) > 1 else [key]
    if table.key_columns and len(values) != len(table.key_columns):
        raise ConfigError(
            f"{table.name} has {len(table.key_columns)} key columns, {key!r} has {len(values)}",
            hint=f"give {','.join(table.key_columns)}",
        )
    return values if table.key_columns else []


def keys_of(texts: Sequence[Sequence[str]]) -> set[str]:
    """Return the keys that a run of the row can have, of the texts of each column's value.

    A run has the key as it was decoded from the WAL: a number without its scale, `True`.
    """
    names = [str(n) for n, _ in enumerate(texts)]
    columns = [
        list(dict.fromkeys(value for text in each for value in _read(text))) for each in texts
    ]
    rows = (dict(zip(names, values, strict=True)) for values in islice(product(*columns), _KEYS))
    return {found for row in rows if (found := joined(row, names)) is not None}


def _read(text: str) -> Iterator[object]:
    """Yield a text, and what it is as a truth value or a number."""
    yield text
    if text in {"true", "false"}:
        yield text == "true"
    with suppress(InvalidOperation, ValueError):
        yield Decimal(text)
        yield float(text)


def split_key(text: str) -> list[str]:
    r"""Split ``a,b\,c`` into its values; the inverse of `matching.document.joined`."""
    parts, escaped = [""], False
    for letter in text:
        if not escaped and letter == ",":
            parts.append("")
        elif escaped or letter != "\\":
            parts[-1] += letter
        escaped = not escaped and letter == "\\"
    return parts


async def _condition(
    conn: Connection, attachment: Attachment, row: CurrentRow | None
) -> tuple[ConditionState, str]:
    """Evaluate the condition on the current row, as if it had just been inserted."""
    trigger = attachment.trigger
    if trigger.condition is None or row is None:
        return "none", ""
    if not {*trigger.condition_columns} <= row.values.keys():
        return "none", ""  # the role cannot read what the condition reads
    relation = attachment.target.as_relation()
    change = Change(Lsn(0), 0, Op.INSERT, relation, dict(row.values), None)
    matched = Match(attachment, change, None)
    try:
        async with open_evaluator(conn) as evaluator:
            verdicts = await evaluator.evaluate([matched])
    except PreconditionError:  # a viewer cannot become the role; the other reasons are shown
        return "none", ""
    for verdict in verdicts:
        match verdict:
            case Raised(_, sqlstate, message):
                return "raises", f"{message} (SQLSTATE {sqlstate})"
            case Deferred(_, reason):
                return "raises", reason
            case _:
                return "true", ""
    return "false", ""


def sentences(explanation: Explanation) -> Iterator[str]:
    """Format the explanation as lines."""
    table = f"{explanation.table.schema}.{explanation.table.name}"
    there = "cannot be read without an attachment"
    if explanation.verdicts:
        there = "cannot be read as the run_as of an attachment"
    if explanation.present is not None:
        there = "exists" if explanation.present else "does not exist now, or run_as cannot see it"
    if not explanation.table.key_columns:
        there = "cannot be found: the table has no primary key"
    yield f"{table} {explanation.key}: the row {there}"
    if not explanation.verdicts:
        yield "no attachment on this table"
    for verdict in explanation.verdicts:
        yield f"{verdict.attachment}: {verdict.verdict}"
        for reason in verdict.reasons:
            yield f"  {'' if reason.certain else 'maybe: '}{reason.text}"
    for run in explanation.runs:
        if run.attachment is None:
            yield f"run {run.id} ({run.state}) belongs to a removed attachment"
    for reason in explanation.reasons:
        yield f"reader: {reason.text}"
