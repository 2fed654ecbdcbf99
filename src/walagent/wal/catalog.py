"""Read table definitions from the catalog for wal2json, whose documents do not contain them.

The queries run on the replication connection before it streams.  They cannot have parameters.

Source: PostgreSQL docs, 53.11 pg_class, 53.7 pg_attribute, 53.26 pg_index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from psycopg import AsyncConnection, Error

from walagent.domain.change import Column, Relation
from walagent.errors import PreconditionError
from walagent.postgres.encodings import CODECS
from walagent.postgres.quoting import quote_text
from walagent.wal.connection import server_encoding, take_bytes
from walagent.wal.refusals import refused

_COLUMNS: Final = """
select c.oid::int8,
       n.nspname,
       c.relname,
       c.relreplident::text,
       a.attname,
       a.atttypid::int8,
       pg_catalog.format_type(a.atttypid, a.atttypmod),
       c.relreplident = 'f' or coalesce(a.attnum = any (i.indkey::int2[]), false)
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_catalog.pg_index i
         on i.indrelid = c.oid
        and (c.relreplident = 'd' and i.indisprimary
             or c.relreplident = 'i' and i.indisreplident)
 where c.relkind in ('r', 'p')
   and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
   {wanted}
 order by c.oid, a.attnum
"""


_LEFT_OUT: Final = """
select n.nspname, c.relname, a.attname
  from pg_catalog.pg_attribute a
  join pg_catalog.pg_class c on c.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where a.attgenerated <> '' and not a.attisdropped
   and (a.attgenerated = 'v' or current_setting('server_version_num')::int < 180000)
"""


@dataclass(frozen=True, slots=True)
class DatabaseCatalog:
    """What a database reports about itself before its changes are read."""

    tables: Sequence[Relation] = ()
    # By table: the columns that pgoutput does not send, which are removed from wal2json's rows.
    left_out: Mapping[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )
    encoding: str = "UTF8"  # PostgreSQL's name for it


async def read_catalog(conn: AsyncConnection, tables: Sequence[tuple[str, str]]) -> DatabaseCatalog:
    """Read the tables, generated columns and encoding of a database; see `read_tables`.

    Raises:
        PreconditionError: the encoding of wal2json's output cannot be decoded.
        WalagentError: the connection was lost, or the role lacks a privilege.
    """
    if (encoding := server_encoding(conn)) not in CODECS:
        raise PreconditionError(
            f"cannot decode wal2json output in encoding {encoding}",
            hint="Use pgoutput, which sends UTF-8: replication: {plugin: pgoutput}",
        )
    return DatabaseCatalog(await read_tables(conn, tables), await _left_out(conn), encoding)


async def _left_out(conn: AsyncConnection) -> Mapping[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for schema, table, column in await _rows(conn, _LEFT_OUT):
        found.setdefault((schema, table), set()).add(column)
    return {table: frozenset(columns) for table, columns in found.items()}


async def read_tables(
    conn: AsyncConnection, tables: Sequence[tuple[str, str]]
) -> Sequence[Relation]:
    """Describe the named tables (schema, name), or all user tables if none are named.

    Raises:
        WalagentError: the connection was lost, or the role lacks a privilege.
    """
    names = ", ".join(f"({quote_text(schema)}, {quote_text(name)})" for schema, name in tables)
    wanted = f"and (n.nspname, c.relname) in ({names})" if names else ""
    rows = await _rows(conn, _COLUMNS.format(wanted=wanted))
    return [
        Relation(oid, schema, name, tuple(Column(*row[4:]) for row in columns), identity)
        for (oid, schema, name, identity), columns in groupby(rows, key=lambda row: row[:4])
    ]


async def _rows(conn: AsyncConnection, query: str) -> list[tuple[Any, ...]]:
    try:
        await take_bytes(conn)
        cursor = await conn.execute(query.encode())
        return [tuple(map(_plain, row)) for row in await cursor.fetchall()]
    except Error as error:
        raise refused(error, "") from error


def _plain(value: object) -> Any:  # noqa: ANN401 - any column value
    """Decode text from a database whose encoding is SQL_ASCII."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
