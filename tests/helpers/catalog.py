"""What a migration leaves in the catalog, to compare two databases."""

from typing import Any

from psycopg import AsyncConnection

from tests.helpers.database import rows

_OURS = "('agent'::regnamespace, 'agent_internal'::regnamespace, 'agent_signed'::regnamespace)"
_CATALOG = f"""
select 'relation', c.oid::regclass::text, c.relkind::text, c.reloptions::text, c.relacl::text,
       coalesce(pg_get_viewdef(c.oid), '') || coalesce(obj_description(c.oid, 'pg_class'), '')
  from pg_class c where c.relnamespace in {_OURS} and c.relkind <> 'i'
union all
select 'column', a.attrelid::regclass::text, a.attname, format_type(a.atttypid, a.atttypmod),
       a.attnotnull::text || coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
       col_description(a.attrelid, a.attnum)
  from pg_class c
       join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
 where c.relnamespace in {_OURS} and c.relkind in ('r', 'v', 'c')
union all
select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', ''
  from pg_constraint where connamespace in {_OURS}
union all
select 'index', schemaname, indexname, indexdef, '', ''
  from pg_indexes where schemaname in ('agent', 'agent_internal')
union all
select 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proacl::text,
       obj_description(p.oid, 'pg_proc'), ''
  from pg_proc p where p.pronamespace in {_OURS}
union all
select 'trigger', t.tgrelid::regclass::text, pg_get_triggerdef(t.oid), '', '', ''
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
 where c.relnamespace in {_OURS} and not t.tgisinternal
union all
select 'policy', tablename, policyname, qual, with_check, cmd from pg_policies
 where schemaname in ('agent', 'agent_internal')
union all
select 'label', e.enumtypid::regtype::text, e.enumlabel, e.enumsortorder::text, '', ''
  from pg_enum e
 where (select typnamespace from pg_type where oid = e.enumtypid) in {_OURS}
union all
select 'publication', pubname, schemaname, tablename, rowfilter, '' from pg_publication_tables
 where schemaname in ('agent', 'agent_internal')
 order by 1, 2, 3, 4, 5, 6
"""


async def catalog(conn: AsyncConnection) -> list[tuple[Any, ...]]:
    """List what the schemas of walagent have, in an order of its own."""
    return await rows(conn, _CATALOG)
