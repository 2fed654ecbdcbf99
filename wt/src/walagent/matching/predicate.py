"""The statement that lets PostgreSQL judge a condition on decoded rows, many at a time.

PostgreSQL itself evaluates it, on values of the table's own types: collations, NULL and casts are
as everywhere.  A column that the WAL did not carry (UNCHANGED) is taken from the old row where
that is whole, else from the row as it is now.
"""

from collections.abc import Iterable
from typing import Any

from psycopg import sql

from walagent.attachment import Attachment
from walagent.change import UNCHANGED, Change, Row
from walagent.matching.document import row_json


def statement(attachment: Attachment) -> sql.Composed:
    """Compose the statement; its one parameter, `$1`, is the JSON array that `rows` makes.

    Its rows are (n, verdict), in no order.  It is for a raw cursor: to any other, a percent sign in
    the condition or in a name would be a parameter.
    """
    table = sql.Identifier(attachment.schema, attachment.table)
    return sql.SQL(
        "select given.n, ({condition})\n"
        "  from jsonb_to_recordset($1::jsonb)\n"
        "           as given (n integer, new jsonb, old jsonb, key jsonb)\n"
        "       {present}\n"
        "       cross join lateral jsonb_populate_record({base}, given.new) as new\n"
        "       cross join lateral jsonb_populate_record(null::{table}, given.old) as old"
    ).format(
        condition=sql.SQL(attachment.condition or "true"),  # pyright: ignore[reportArgumentType]  # compiled and checked by agent.compile_condition()
        present=_present_row(attachment, table),
        base=sql.SQL("present.whole" if attachment.key_columns else "null::{table}").format(
            table=table
        ),
        table=table,
    )


def _present_row(attachment: Attachment, table: sql.Identifier) -> sql.Composable:
    """Join the row as it is now, but only for changes that lack a column the condition reads."""
    if not attachment.key_columns:
        return sql.SQL("")
    same = sql.SQL(" and ").join(
        sql.SQL("t.{0} = wanted.{0}").format(sql.Identifier(c)) for c in attachment.key_columns
    )
    return sql.SQL(
        "left join lateral (\n"
        "           select (t.*)::{table} as whole\n"
        "             from jsonb_populate_record(null::{table}, given.key) as wanted\n"
        "                  join {table} as t on {same}\n"
        "            where given.key is not null) as present on true"
    ).format(table=table, same=same)


def rows(attachment: Attachment, changes: Iterable[tuple[int, Change]]) -> list[dict[str, Any]]:
    """Write numbered changes as the statement's parameter."""
    return [
        {
            "n": n,
            "new": row_json(_whole(change), attachment.json_columns),
            "old": row_json(change.old, attachment.json_columns),
            "key": _key(attachment, change),
        }
        for n, change in changes
    ]


def _whole(change: Change) -> Row | None:
    """The new row, completed from the old one where that has what the WAL left out."""
    if change.new is None:
        return None
    return {
        name: change.old[name]
        if value is UNCHANGED and change.old and name in change.old
        else value
        for name, value in change.new.items()
    }


def _key(attachment: Attachment, change: Change) -> dict[str, Any] | None:
    """The key to look the present row up by; None when that is not needed."""
    new, old = change.new or {}, change.old or {}
    missing = any(
        new.get(name) is UNCHANGED and name not in old for name in attachment.condition_columns
    )
    if not missing:
        return None
    return row_json({name: new[name] for name in attachment.key_columns if name in new})
