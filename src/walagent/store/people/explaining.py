"""Read the facts for `walagent why`: a row, its runs, its table's attachments, the reader."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection, DataError, sql
from psycopg.rows import class_row

from walagent.domain.attachment import Attachment
from walagent.errors import ConfigError
from walagent.store.queries import query
from walagent.store.role_reader import RoleReader, RoleStatement

Connection = AsyncConnection[Any]

_CHANGED_AT = sql.SQL(
    "case when current_setting('track_commit_timestamp') = 'on'"
    " then pg_xact_commit_timestamp(t.xmin) end"
)


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A table and its primary key."""

    schema: str
    name: str
    key_columns: list[str]


@dataclass(frozen=True, slots=True)
class AttachmentState:
    """The current state of an attachment."""

    attachment: Attachment
    paused: bool
    paused_reason: str | None
    attached_at: datetime
    active: bool  # whether the reader has reached this version
    backfill: str | None  # its state
    lost: str | None  # why it is broken


@dataclass(frozen=True, slots=True)
class RowRun:
    """A run of the row."""

    id: int
    attachment_id: int
    attachment: str | None
    state: str
    op: str
    reason: str
    depth: int
    cause_run: int | None
    error: str | None
    committed_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ReaderState:
    """The position of the reader; None without a checkpoint."""

    ingested: str | None
    written: str
    behind: int | None  # bytes
    reading: bool
    slot_exists: bool
    gaps: int


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """The current row, and when it last changed if the server records that."""

    values: Mapping[str, Any]
    changed_at: datetime | None


async def describe_table(conn: Connection, relation: int) -> KeyedTable:
    """Read the name and primary key of a table."""
    cursor = conn.cursor(row_factory=class_row(KeyedTable))
    await cursor.execute(query("describe_table"), {"relation": relation})
    table = await cursor.fetchone()
    assert table is not None  # noqa: S101 - the caller has just looked up its OID
    return table


async def attached_to(conn: Connection, relation: int) -> list[AttachmentState]:
    """Return the attachments of a table."""
    cursor = await conn.execute(query("explain_attachments"), {"relation": relation})
    return [
        AttachmentState(Attachment.from_json(definition), *rest)
        for definition, _, *rest in await cursor.fetchall()
    ]


async def runs_of(conn: Connection, table: KeyedTable, keys: Sequence[str]) -> list[RowRun]:
    """Return the latest runs of a row, newest first.

    Args:
        keys: the texts that its key can have.
    """
    cursor = conn.cursor(row_factory=class_row(RowRun))
    given = {"keys": list(keys), "schema": table.schema, "table": table.name}
    await cursor.execute(query("explain_runs"), given)
    return await cursor.fetchall()


async def reader_state(conn: Connection, slot: str) -> ReaderState:
    """Return the position of the reader of *slot*."""
    cursor = conn.cursor(row_factory=class_row(ReaderState))
    await cursor.execute(query("explain_reader"), {"slot": slot})
    state = await cursor.fetchone()
    assert state is not None  # noqa: S101 - outer joins keep the one row
    return state


async def readable_columns(conn: Connection, table: KeyedTable, role: str) -> list[str] | None:
    """Return the columns that a role can read; None: all, and those of the system."""
    cursor = await conn.execute(
        query("readable_columns"), {"schema": table.schema, "table": table.name, "role": role}
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def texts_of_key(
    reader: RoleReader, run_as: str, table: KeyedTable, key: Sequence[str]
) -> list[list[str]]:
    """Return for each key column the texts that PostgreSQL has for the value that was given."""
    texts = sql.SQL(", ").join(
        sql.SQL(
            "jsonb_build_array(wanted.{0}::text, to_jsonb(wanted.{0}) #>> '{{}}',"
            " rtrim(wanted.{0}::text))"
        ).format(sql.Identifier(name))
        for name in table.key_columns
    )
    statement = sql.SQL(
        "select jsonb_build_array({texts})::text"
        "  from jsonb_populate_record(null::{table}, $1) wanted"
    ).format(table=sql.Identifier(table.schema, table.name), texts=texts)
    wanted = dict(zip(table.key_columns, key, strict=True))
    found = await reader.read(RoleStatement(run_as, statement.as_bytes(), wanted))
    return json.loads(found) if found is not None else []


async def present_row(
    reader: RoleReader,
    run_as: str,
    table: KeyedTable,
    key: Sequence[str],
    columns: Sequence[str] | None = None,
) -> CurrentRow | None:
    """Read the row with this primary key as *run_as*; None if the role sees no such row.

    Its types, casts and policies are code of the table's owner.

    Args:
        key: one text for each key column, which PostgreSQL parses as the column's type.
        columns: those that the role can read; None: all.
    """
    same = sql.SQL(" and ").join(
        sql.SQL("t.{0} = wanted.{0}").format(sql.Identifier(name)) for name in table.key_columns
    )
    values, at = sql.SQL("to_jsonb(t)"), _CHANGED_AT
    if columns is not None:  # the columns of the system are read with a right on the whole table
        members = sql.SQL(", ").join(
            sql.SQL("{}::text, t.{}").format(sql.Literal(name), sql.Identifier(name))
            for name in columns
        )
        values, at = sql.SQL("jsonb_build_object({})").format(members), sql.SQL("null")
    statement = sql.SQL(
        "select jsonb_build_array({values}, {at})::text"
        "  from {table} t, jsonb_populate_record(null::{table}, $1) wanted where {same}"
    ).format(table=sql.Identifier(table.schema, table.name), same=same, values=values, at=at)
    wanted = dict(zip(table.key_columns, key, strict=True))
    try:
        found = await reader.read(RoleStatement(run_as, statement.as_bytes(), wanted))
    except DataError as error:
        given, columns = ",".join(key), ", ".join(table.key_columns)
        raise ConfigError(
            f'"{given}" is not a value of the primary key ({columns}) of {table.name}: '
            f"{error.diag.message_primary}"
        ) from error
    if found is None:
        return None
    present, changed_at = json.loads(found)
    return CurrentRow(present, datetime.fromisoformat(changed_at) if changed_at else None)
