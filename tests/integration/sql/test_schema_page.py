"""The generated page of the schema, and the comments that it is made from."""

import psycopg
from psycopg import AsyncConnection

from tests.docs_schema import PAGE, schema_page
from tests.helpers.database import column

UNCOMMENTED = """
select c.oid::regclass::text
  from pg_class c
 where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
   and c.relkind in ('r', 'v')
   and obj_description(c.oid, 'pg_class') is null
union all
select p.oid::regprocedure::text
  from pg_proc p
 where p.pronamespace = 'agent'::regnamespace and obj_description(p.oid, 'pg_proc') is null
union all
select c.oid::regclass || '.' || a.attname
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace = 'agent'::regnamespace and c.relkind in ('r', 'v')
   and col_description(c.oid, a.attnum) is null
union all
select t.oid::regtype::text
  from pg_type t
 where t.typnamespace = 'agent'::regnamespace and (t.typtype = 'e' or t.typtype = 'c' and
       (select relkind from pg_class where oid = t.typrelid) = 'c')
   and coalesce(obj_description(t.oid, 'pg_type'), obj_description(t.typrelid, 'pg_class')) is null
"""


async def test_the_page_of_the_schema_is_that_of_the_migrations(
    conn: AsyncConnection, dsn: str
) -> None:
    """If it differs: make docs."""
    with psycopg.connect(dsn) as live:
        assert PAGE.read_text("utf-8") == schema_page(live)
    assert await column(conn, UNCOMMENTED) == []
