-- The catalog's facts for the checks of statements: relations with columns and unique keys, columns that
-- are never NULL, comparisons, totals, enum values.
select 'relation', c.oid::int8, n.nspname, c.relname,
       (select coalesce(jsonb_object_agg(a.attnum, a.attname), '{}')
          from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
       (select coalesce(jsonb_agg(to_jsonb(i.indkey::int2[])), '[]')
          from pg_index i
         where i.indrelid = c.oid and i.indisunique and i.indisvalid
           and i.indpred is null and i.indexprs is null and i.indnkeyatts = i.indnatts)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.oid = any (%(relations)s::oid[]) and n.nspname not in ('pg_catalog', 'information_schema')
union all
select 'filled', a.attrelid::int8, null, null, jsonb_agg(a.attnum), null
  from pg_attribute a
 where a.attrelid = any (%(relations)s::oid[]) and a.attnum > 0 and a.attnotnull
 group by a.attrelid
union all
select 'operator', o.oid::int8, null, o.oprname, null, null
  from pg_operator o
 where o.oid = any (%(operators)s::oid[]) and o.oprnamespace = 'pg_catalog'::regnamespace
   and (o.oprname in ('<', '<=', '>', '>=', '<>') or o.oprname = '=' and o.oprcanmerge)
union all
select 'total', p.oid::int8, null, p.proname, null, null
  from pg_proc p
 where p.oid = any (%(functions)s::oid[]) and p.pronamespace = 'pg_catalog'::regnamespace
   and p.proname in ('sum', 'count', 'avg')
union all
select 'label', e.oid::int8, null, e.enumlabel, null, to_jsonb(e.enumtypid::int8)
  from pg_enum e
 where e.oid = any (%(values)s::oid[])
