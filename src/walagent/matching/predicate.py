"""Build the statement by which PostgreSQL evaluates a condition on many decoded rows.

PostgreSQL evaluates it on values of the types that the columns had at the change, so collations,
NULL and casts work as usual even if the table has changed since.  A column that the WAL does not
contain (UNCHANGED) is taken from the old row if that is complete, else from the current row.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, cast

from psycopg import sql

from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Change, Relation, Row, Unsent, Value
from walagent.matching.document import json_columns, row_json

# Characters of one value.  A condition sees whole values only; a larger one would cost the reader
# and the server several times its size, and seconds without ingesting.
MAX_EVALUATED = 16 << 20


# The condition is not evaluated without a value that it reads: it would be NULL.
_LOOKED_UP = (
    "case when given.key is null or present.part is not null then ({condition}) end,\n"
    "       given.key is not null and present.part is null,\n"
    "       (select row_security_active(c.oid) from pg_class c where c.oid = {relation})"
)


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The SQL types of the columns that an evaluation can need."""

    then: Mapping[str, str]  # by name: the type at the change
    now: Mapping[str, str]  # the current type of the columns that still exist
    table: tuple[str, str] | None  # current schema and name; None: dropped


def needed(attachment: Attachment, relation: Relation) -> Sequence[tuple[str, int]] | None:
    """Return the columns that an evaluation can need, with their type OIDs, 0 if unknown.

    None: all columns of the table, because the relation was not described.
    """
    described = {column.name: column.type_oid for column in relation.columns}
    if attachment.trigger.whole_row:
        return list(described.items()) or None
    names = dict.fromkeys((*attachment.trigger.condition_columns, *attachment.target.key_columns))
    return [(name, described.get(name, 0)) for name in names]


def oversized(attachment: Attachment, change: Change) -> tuple[str, int] | None:
    """Return a value that the condition reads and that exceeds the limit, with its length."""
    for row in (change.new, change.old):
        for name in (
            row if row and attachment.trigger.whole_row else attachment.trigger.condition_columns
        ):
            value = row.get(name) if row else None
            if isinstance(value, str) and len(value) > MAX_EVALUATED:
                return name, len(value)
    return None


def omitted(attachment: Attachment, change: Change) -> Sequence[str]:
    """Return the columns that the condition reads and whose values the WAL omits."""
    new, old = change.new or {}, change.old or {}
    return [
        name
        for name, value in new.items()
        if value is UNCHANGED and name not in old and _is_read(name, attachment)
    ]


def is_found_by_key(attachment: Attachment, change: Change) -> bool:
    """Return whether the change has a key by which its row can be looked up."""
    names, new = attachment.target.key_columns, change.new or {}
    return bool(names) and all(new.get(name, UNCHANGED) is not UNCHANGED for name in names)


def statement(
    attachment: Attachment, shape: ColumnTypes, *, looks_up: bool = False
) -> sql.Composed:
    """Build the statement; the first text of its parameter `$2` is the JSON array from `rows`.

    Its result is a JSON array of (n, verdict, gone, hidden), in any order: *gone* if a value is
    omitted and the row, which would have it, was not found; *hidden* if row security can hide it.

    Args:
        looks_up: whether a change lacks a column and has a key to look up its row.
    """
    columns = [name for name in shape.then if _is_read(name, attachment)]
    return sql.SQL(
        "select json_agg(json_build_array(given.n, {verdict}))::text\n"
        "  from jsonb_to_recordset(($2)[1]::jsonb)\n"
        "           as given (n integer, new jsonb, old jsonb, key jsonb)\n"
        "{present}"
        "       cross join lateral {new}\n"
        "       cross join lateral {old}"
    ).format(
        verdict=sql.SQL(_LOOKED_UP if looks_up else "({condition}), false, false").format(
            relation=sql.Literal(attachment.target.relation_oid),
            condition=sql.SQL(attachment.trigger.condition or "true"),  # pyright: ignore[reportArgumentType]  # compiled and checked by agent_internal.compile_condition()
        ),
        present=_present_row(attachment, shape, columns) if looks_up else sql.SQL(""),
        new=_record(
            "new", "coalesce(present.part, '{}') || given.new" if looks_up else "given.new",
            columns, shape,
        ),
        old=_record("old", "given.old", columns, shape),
    )  # fmt: skip


def column_statement(
    attachment: Attachment, shape: ColumnTypes, sides: Sequence[str]
) -> sql.Composed | None:
    """Compose the statement for changes of which everything that is read is there, as text.

    Its parameters are the number of changes (`$1`), and their texts (`$2`), column by column, for
    each column that the condition reads of each of the *sides* (see `texts`).  Its result is the
    numbers, from 1, of those for which the condition is true, with commas between.  The condition
    stands within a CASE, so that the planner does not take it apart and change the order in which
    it is evaluated.  None: a column's type is not known.
    """
    columns = attachment.trigger.condition_columns
    if not shape.then.keys() >= set(columns):
        return None
    given = [f"c{n}" for n in range(len(sides) * len(columns))]
    names = iter(given)
    return sql.SQL(
        "select string_agg(given.n::text, ',')\n"
        "  from (select ($1)::integer) as size (n)\n"
        "       cross join lateral unnest({arrays}) with ordinality as given ({given}, n)\n"
        "       cross join lateral {new}\n"
        "       cross join lateral {old}\n"
        " where case when ({condition}) then true else false end"
    ).format(
        arrays=sql.SQL(", ").join(
            sql.SQL(f"($2)[{n} * size.n + 1 : {n + 1} * size.n]")  # pyright: ignore[reportArgumentType]  # numbers
            for n in range(len(given))
        ),
        given=sql.SQL(", ").join(sql.Identifier(name) for name in given),
        new=_cast("new", columns, shape, names if "new" in sides else None),
        old=_cast("old", columns, shape, names if "old" in sides else None),
        condition=sql.SQL(attachment.trigger.condition or "true"),  # pyright: ignore[reportArgumentType]  # compiled and checked by agent_internal.compile_condition()
    )


def _cast(
    alias: str, columns: Sequence[str], shape: ColumnTypes, given: Iterator[str] | None
) -> sql.Composable:
    """A side of the change as a row; of NULLs where the changes have none."""
    cells = sql.SQL(", ").join(
        sql.SQL("{}::{} as {}").format(
            sql.SQL("null") if given is None else sql.Identifier("given", next(given)),
            sql.SQL(shape.then[name]),  # pyright: ignore[reportArgumentType]  # as the catalog writes types
            sql.Identifier(name),
        )
        for name in columns
    )
    return sql.SQL("(select {}) as {}").format(cells, sql.Identifier(alias))


Texts = tuple[str | None, ...]


def texts(
    attachment: Attachment, changes: Sequence[Change]
) -> tuple[Sequence[str], list[Texts]] | None:
    """Write what the condition reads of changes as text: which sides they have, and their values.

    Changes with the same values have the same verdict.  None: a condition reads whole rows or no
    column, or something is not there or too large; then it takes `statement`.
    """
    names = attachment.trigger.condition_columns
    if attachment.trigger.whole_row or not names:
        return None
    sides = {"new": [change.new for change in changes], "old": [change.old for change in changes]}
    given = {side: rows for side, rows in sides.items() if any(row is not None for row in rows)}
    columns = list[Sequence[str | None]]()
    for rows in given.values():
        for name in names:
            column = _texts([row.get(name) if row else None for row in rows])
            if column is None:
                return None
            columns.append(column)
    return (tuple(given), list(zip(*columns, strict=True))) if given else None


def _texts(values: Sequence[Value]) -> Sequence[str | None] | None:
    kinds = set(map(type, values))
    if Unsent in kinds:
        return None
    if kinds == {int}:
        return list(map(str, values))
    if not kinds <= {str, NoneType}:
        return [_text(value) for value in values]
    column = cast("Sequence[str | None]", values)
    return None if max(len(value or "") for value in column) > MAX_EVALUATED else column


def _text(value: Value) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def array(values: Sequence[str | None]) -> bytes:
    """Write texts as the array that PostgreSQL reads."""
    if None not in values:
        joined = '","'.join(cast("Sequence[str]", values))
        if "\\" not in joined and joined.count('"') == 2 * (len(values) - 1):
            return f'{{"{joined}"}}'.encode("utf-8", "surrogateescape")
    cells = ("NULL" if value is None else f'"{_escaped(value)}"' for value in values)
    return f"{{{','.join(cells)}}}".encode("utf-8", "surrogateescape")


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


def _is_read(name: str, attachment: Attachment) -> bool:
    return attachment.trigger.whole_row or name in attachment.trigger.condition_columns


def _record(alias: str, given: str, columns: Sequence[str], shape: ColumnTypes) -> sql.Composable:
    """Build one side of the change as a row, without columns if the condition reads none."""
    name = sql.Identifier(alias)
    if not columns:
        return sql.SQL("(select) as {}").format(name)
    return sql.SQL("jsonb_to_record({given}) as {name} ({columns})").format(
        given=sql.SQL(given),  # pyright: ignore[reportArgumentType]  # a text of ours
        name=name,
        columns=_typed(columns, shape.then),
    )


def _typed(columns: Iterable[str], types: Mapping[str, str]) -> sql.Composable:
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(types[name]))  # pyright: ignore[reportArgumentType]  # as the catalog writes types
        for name in columns
    )


def _present_row(
    attachment: Attachment, shape: ColumnTypes, columns: Sequence[str]
) -> sql.Composable:  # fmt: skip
    """Join the current values of the columns that the condition reads.

    A dropped column is selected too: its value is lost, and the error is better than NULL.
    """
    keys = [name for name in attachment.target.key_columns if name in shape.now]
    return sql.SQL(
        "       left join lateral (\n"
        "           select to_jsonb(part) as part\n"
        "             from (select {columns}\n"
        "                     from jsonb_to_record(given.key) as wanted ({wanted})\n"
        "                          join {table} as t on {same}\n"
        "                    where given.key is not null) as part) as present on true\n"
    ).format(
        columns=sql.SQL(", ").join(sql.Identifier("t", name) for name in columns),
        wanted=_typed(keys, shape.now),
        table=sql.Identifier(*(shape.table or attachment.target.relation)),
        same=sql.SQL(" and ").join(
            sql.SQL("t.{0} = wanted.{0}").format(sql.Identifier(name)) for name in keys
        ),
    )


def rows(attachment: Attachment, changes: Iterable[tuple[int, Change]]) -> list[dict[str, Any]]:
    """Encode numbered changes as the statement's parameter.

    Bytes of a SQL_ASCII database are passed unchanged.
    """
    return [
        {
            "n": n,
            "new": _side(attachment, change.relation, _whole(change)),
            "old": _side(attachment, change.relation, change.old),
            "key": _key(attachment, change),
        }
        for n, change in changes
    ]


def _side(attachment: Attachment, relation: Relation, row: Row | None) -> dict[str, Any] | None:
    """Return the columns of one side that the condition reads."""
    if row is None:
        return None
    kinds = json_columns(attachment, relation)
    if not attachment.trigger.whole_row:
        row = {name: row[name] for name in attachment.trigger.condition_columns if name in row}
    return row_json(row, kinds)


def _whole(change: Change) -> Row | None:
    """Return the new row, with values that the WAL omits taken from a complete old row."""
    if change.new is None:
        return None
    return {
        name: change.old[name]
        if value is UNCHANGED and change.old and name in change.old
        else value
        for name, value in change.new.items()
    }


def _key(attachment: Attachment, change: Change) -> dict[str, Any] | None:
    """Return the key to look up the current row; None if not needed or not possible."""
    if not omitted(attachment, change) or not is_found_by_key(attachment, change):
        return None
    new = change.new or {}
    return row_json({name: new[name] for name in attachment.target.key_columns})
