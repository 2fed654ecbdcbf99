"""Look up user tables in the catalog, by OID: they can be renamed after the attach."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from walagent.postgres import pgtypes
from walagent.store.queries import query

Connection = AsyncConnection[Any]
Name = tuple[str, str]  # schema and table


@dataclass(frozen=True, slots=True)
class CheckedCondition:
    """A condition with qualified names, and what it reads."""

    text: str
    columns: tuple[str, ...]
    old_columns: tuple[str, ...]
    whole_row: bool


async def name_of(conn: Connection, oid: int) -> Name | None:
    """Return the current name of a table; None if it was dropped."""
    cursor = await conn.execute(
        "select n.nspname, c.relname from pg_catalog.pg_class c"
        " join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = %(oid)s",
        {"oid": oid},
    )
    return await cursor.fetchone()


async def oids_of(conn: Connection, names: Collection[Name]) -> Mapping[Name, int]:
    """Return the tables that have these names now, without dropped ones."""
    cursor = await conn.execute(
        "select n.nspname, c.relname, c.oid::bigint from pg_catalog.pg_class c"
        " join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
        " join unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)"
        "      on n.nspname = w.schema and c.relname = w.name",
        {"schemas": [schema for schema, _ in names], "names": [name for _, name in names]},
    )
    return {(schema, name): oid for schema, name, oid in await cursor.fetchall()}


async def type_names(conn: Connection, oid: int, columns: Mapping[str, int]) -> Mapping[str, str]:
    """Return the SQL names of the types of columns; without a modifier if the type has changed.

    Args:
        oid: of their table, as of a change.
        columns: the OIDs of their types at the change; a type that was dropped has no name.
    """
    cursor = await conn.execute(
        "select w.name, pg_catalog.format_type(w.type, a.atttypmod)"
        " from unnest(%(names)s::text[], %(types)s::oid[]) as w (name, type)"
        " join pg_catalog.pg_type t on t.oid = w.type"
        " left join pg_catalog.pg_attribute a"
        "      on a.attrelid = %(oid)s and a.attname = w.name and a.atttypid = w.type",
        {"oid": oid, "names": list(columns), "types": list(columns.values())},
    )
    return dict(await cursor.fetchall())


async def column_types(
    conn: Connection, oid: int, columns: Sequence[tuple[str, int]] | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the SQL types by which the columns of a change are parsed.

    Args:
        columns: their names, and the OIDs of their types at the change, 0 if unknown; None: all
            current columns of the table.

    Returns:
        By column, the type at the change, and the current type if the column still exists.
    """
    if columns is None:
        cursor = await conn.execute(
            "select attname, 0 from pg_catalog.pg_attribute"
            " where attrelid = %(oid)s and attnum > 0 and not attisdropped order by attnum",
            {"oid": oid},
        )
        columns = await cursor.fetchall()
    cursor = await conn.execute(
        "select name, type_then, type_now from agent_internal.column_types(_relation => %(oid)s,"
        " _names => %(names)s, _types => %(types)s::oid[])",
        {
            "oid": oid,
            "names": [name for name, _ in columns],
            "types": [type_oid for _, type_oid in columns],
        },
    )
    found = await cursor.fetchall()
    return (
        {name: then for name, then, _ in found if then is not None},
        {name: now for name, _, now in found if now is not None},
    )


async def columns_of(conn: Connection, oid: int) -> list[tuple[str, int]]:
    """Return the columns of a table, in order, with the OIDs of their types; of a domain, its base.

    Nothing if the table was dropped.
    """
    cursor = await conn.execute(
        "with recursive part (attnum, attname, type) as ("
        "    select attnum, attname, atttypid from pg_catalog.pg_attribute"
        "     where attrelid = %(oid)s and attnum > 0 and not attisdropped"
        "    union all"
        "    select p.attnum, p.attname, t.typbasetype"
        "      from part p join pg_catalog.pg_type t on t.oid = p.type where t.typtype = 'd')"
        " select p.attname, p.type::bigint"
        "   from part p join pg_catalog.pg_type t on t.oid = p.type"
        "  where t.typtype <> 'd' order by p.attnum",
        {"oid": oid},
    )
    return await cursor.fetchall()


async def readable_columns(conn: Connection, oid: int, role: str) -> list[tuple[str, int]]:
    """Return the columns of a table that *role* can read, as `columns_of` does."""
    cursor = await conn.execute(
        "select attname from pg_catalog.pg_attribute"
        " where attrelid = %(oid)s and attnum > 0 and not attisdropped"
        "   and has_column_privilege(%(role)s, attrelid, attnum, 'select')",
        {"oid": oid, "role": role},
    )
    readable = {name for (name,) in await cursor.fetchall()}
    return [each for each in await columns_of(conn, oid) if each[0] in readable]


async def has_text_casts(conn: Connection) -> bool:
    """Return whether a cast from text runs a function that is not built in."""
    cursor = await conn.execute(
        "select exists (select from pg_catalog.pg_cast where castsource = 'text'::regtype"
        " and castmethod = 'f' and castfunc >= %(first)s)",
        {"first": pgtypes.FIRST_OF_USERS},
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def is_ending(conn: Connection, xid: int) -> bool:
    """Return whether a transaction that committed in the WAL is still invisible to others.

    Args:
        xid: from the WAL; 0: no transaction.
    """
    cursor = await conn.execute(
        "select exists (select from pg_catalog.pg_locks where locktype = 'transactionid'"
        " and transactionid = %(xid)s::text::xid)",
        {"xid": str(xid)},
    )
    row = await cursor.fetchone()
    return bool(xid and row and row[0])


async def compile_condition(conn: Connection, oid: int, condition: str) -> CheckedCondition | None:
    """Check a condition as that of an attachment; None if walagent is not installed.

    Raises (as a PostgreSQL error, see `store.errors`): the condition is not valid.
    """
    cursor = await conn.execute("select to_regnamespace('agent_internal') is not null")
    if await cursor.fetchone() != (True,):
        return None
    async with conn.transaction(force_rollback=True):
        cursor = await conn.execute(
            "select compiled, columns, old_columns, whole_row"
            " from agent_internal.compile_condition(_relation => %(oid)s::oid,"
            " _condition => %(condition)s,"
            " _path => agent_internal.path_of(agent_internal.schemas_of_caller()))",
            {"oid": oid, "condition": condition},
        )
        row = await cursor.fetchone()
    return None if row is None else CheckedCondition(row[0], tuple(row[1]), tuple(row[2]), row[3])


async def unpublished_tables(conn: Connection, roles: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return by role the tables that it can write and whose updates the reader does not receive."""
    cursor = await conn.execute(query("unpublished_tables"), {"roles": list(roles)})
    return dict(await cursor.fetchall())
