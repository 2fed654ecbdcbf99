"""Tables as the catalog has them now, for wal2json, whose documents do not describe them.

Asked over the replication connection before it streams: it takes plain SQL, but no parameters.

Source: PostgreSQL docs, 53.11 pg_class, 53.7 pg_attribute, 53.26 pg_index.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from psycopg import AsyncConnection, Error

from walagent.change import Column, Relation
from walagent.wal.options import quote_text
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


async def read_tables(
    conn: AsyncConnection, tables: Sequence[tuple[str, str]]
) -> Sequence[Relation]:
    """Describe tables, given by schema and name; without any given, all that are not the system's.

    Raises:
        WalagentError: the connection broke, or the role may not look.
    """
    names = ", ".join(f"({quote_text(schema)}, {quote_text(name)})" for schema, name in tables)
    wanted = f"and (n.nspname, c.relname) in ({names})" if names else ""
    try:
        cursor = await conn.execute(_COLUMNS.format(wanted=wanted).encode())
        rows: list[tuple[Any, ...]] = await cursor.fetchall()
    except Error as error:
        raise refused(error, "") from error
    return [
        Relation(oid, schema, name, tuple(Column(*row[4:]) for row in columns), identity)
        for (oid, schema, name, identity), columns in groupby(rows, key=lambda row: row[:4])
    ]
