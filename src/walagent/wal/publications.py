"""Manage publications, which list the tables that pgoutput sends.

A publication is created once and then only altered.  A change that is written while it does not
exist stops the stream permanently, because the server looks the publication up as of that change.

Source: PostgreSQL docs, 31.1 Publication; CREATE PUBLICATION.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a publication.

    Without a replica identity, the application's UPDATE and DELETE fail if the publication sends
    them.
    """

    schema: str
    name: str
    has_identity: bool


_MISSING: Final = """
select name
  from unnest(%s::text[]) with ordinality as wanted (name, position)
 where not exists (select from pg_publication where pubname = name)
 order by position
"""
_TABLES: Final = """
select n.nspname as schema,
       c.relname as name,
       c.relreplident = 'f'
       or exists (select
                    from pg_index i
                   where i.indrelid = c.oid
                     and (c.relreplident = 'd' and i.indisprimary
                          or c.relreplident = 'i' and i.indisreplident)) as has_identity
  from pg_publication_tables p
  join pg_namespace n on n.nspname = p.schemaname
  join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
 where p.pubname = %s
 order by 1, 2
"""
_ENTRIES: Final = """
select n.nspname, c.relname,
       array[r.oid::text, r.prqual::text, r.prattrs::text,
             p.pubinsert::text, p.pubupdate::text, p.pubdelete::text, p.pubtruncate::text]
  from pg_publication p
       join pg_publication_rel r on r.prpubid = p.oid
       join pg_class c on c.oid = r.prrelid
       join pg_namespace n on n.oid = c.relnamespace
 where p.pubname = %s
"""


async def missing_publications(conn: AsyncConnection, names: Sequence[str]) -> Sequence[str]:
    """Return those of *names* that do not exist, in order."""
    rows = await (await conn.execute(_MISSING, [list(names)])).fetchall()
    return [name for (name,) in rows]


async def published_tables(conn: AsyncConnection, name: str) -> Sequence[PublishedTable]:
    """List the tables of a publication."""
    async with conn.cursor(row_factory=class_row(PublishedTable)) as cursor:
        return await (await cursor.execute(_TABLES, [name])).fetchall()


async def published_as(
    conn: AsyncConnection[Any], name: str
) -> Mapping[tuple[str, str], Sequence[str | None]]:
    """Return how a publication sends each of its tables, by schema and name.

    If this differs from before, changes of the table might not have been sent.
    """
    rows = await (await conn.execute(_ENTRIES, [name])).fetchall()
    return {(schema, table): entry for schema, table, entry in rows}
