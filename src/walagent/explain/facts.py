"""Why a row has a run, or none: what is known, in sentences.

What a change was like is not kept once the WAL has passed, so where there is no run, some reasons
are certain and others can only be named as possible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from psycopg import AsyncConnection

from walagent.attachment import Attachment
from walagent.change import Change, Op
from walagent.config import Config
from walagent.errors import ConfigError
from walagent.explain.verdict import Facts, Reason, Verdict, explain_attachment, reader_reasons
from walagent.intake.conditions import Deferred, Evaluator, Raised
from walagent.lsn import Lsn
from walagent.matching.match import Match
from walagent.store import applying, explaining
from walagent.store.explaining import PresentRow, ReaderState, RowRun, Table

Connection = AsyncConnection[Any]
ConditionState = Literal["none", "true", "false", "raises"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known about a row's runs."""

    table: Table
    key: str
    present: bool
    runs: Sequence[RowRun]
    verdicts: Sequence[Verdict]
    reader: ReaderState
    reasons: Sequence[Reason]  # of the reader, for all attachments alike


async def explain(conn: Connection, config: Config, name: str, key: str) -> Explanation:
    """Look at everything that decides whether a change of a row starts runs.

    Args:
        conn: in autocommit, outside any transaction: conditions are evaluated in their own.
        key: the primary key's value; of several columns, the values with commas between.

    Raises:
        ConfigError: there is no such table, or *key* is no key of it.
    """
    relation, guess = (await applying.find_tables(conn, [name]))[name]
    if relation is None:
        raise ConfigError(f'there is no table "{name}"', hint=guess)
    table = await explaining.describe_table(conn, relation)
    row = await _present(conn, table, key)
    runs = await explaining.runs_of(conn, table, key)
    verdicts = [
        explain_attachment(
            Facts(
                attached,
                [run for run in runs if run.attachment_id == attached.attachment.id],
                row,
                *await _condition(conn, attached.attachment, row),
            )
        )
        for attached in await explaining.attached_to(conn, relation)
    ]
    reader = await explaining.reader_state(conn, config.replication.slot)
    return Explanation(
        table, key, row is not None, runs, verdicts, reader, list(reader_reasons(reader))
    )


async def _present(conn: Connection, table: Table, key: str) -> PresentRow | None:
    if not table.key_columns:
        return None
    values = split_key(key) if len(table.key_columns) > 1 else [key]
    if len(values) != len(table.key_columns):
        raise ConfigError(
            f"{table.name} is keyed by {len(table.key_columns)} columns, {key!r} has {len(values)}",
            hint=f"give {','.join(table.key_columns)}",
        )
    return await explaining.present_row(conn, table, values)


def split_key(text: str) -> list[str]:
    r"""Split ``a,b\,c`` into its values, as `matching.document.joined` put them together."""
    parts, escaped = [""], False
    for letter in text:
        if not escaped and letter == ",":
            parts.append("")
        elif escaped or letter != "\\":
            parts[-1] += letter
        escaped = not escaped and letter == "\\"
    return parts


async def _condition(
    conn: Connection, attachment: Attachment, row: PresentRow | None
) -> tuple[ConditionState, str]:
    """Evaluator the condition on the row as it is now, as if it had just been inserted."""
    if attachment.trigger.condition is None or row is None:
        return "none", ""
    relation = attachment.target.as_relation()
    change = Change(Lsn(0), 0, Op.INSERT, relation, dict(row.values), None)
    matched = Match(attachment, change, None)
    for verdict in await Evaluator(conn).evaluate([matched]):
        match verdict:
            case Raised(_, sqlstate, message):
                return "raises", f"{message} (SQLSTATE {sqlstate})"
            case Deferred(_, reason):
                return "raises", reason
            case _:
                return "true", ""
    return "false", ""


def sentences(explanation: Explanation) -> Iterator[str]:
    """Tell the explanation."""
    table = f"{explanation.table.schema}.{explanation.table.name}"
    there = "is there" if explanation.present else "is not there now"
    if not explanation.table.key_columns:
        there = "cannot be found: the table has no primary key"
    yield f"{table} {explanation.key}: the row {there}"
    if not explanation.verdicts:
        yield "nothing is attached to this table"
    for verdict in explanation.verdicts:
        yield f"{verdict.attachment}: {verdict.verdict}"
        for reason in verdict.reasons:
            yield f"  {'' if reason.certain else 'maybe: '}{reason.text}"
    for run in explanation.runs:
        if run.attachment is None:
            yield f"run {run.id} ({run.state}) is of an attachment that has ended"
    for reason in explanation.reasons:
        yield f"reader: {reason.text}"
