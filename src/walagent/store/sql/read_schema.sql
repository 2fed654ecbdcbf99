-- Tables and views that the present role may read, as one JSON document each, by name.
select jsonb_build_object(
           'schema', n.nspname,
           'name', c.relname,
           'kind', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' else 'table' end,
           'rows', case when c.relkind in ('r', 'm') and c.reltuples >= 0 then c.reltuples::int8 end,
           'comment', obj_description(c.oid, 'pg_class'),
           'columns', (
               select jsonb_agg(jsonb_build_object(
                          'name', a.attname,
                          'type', format_type(a.atttypid, a.atttypmod),
                          'not_null', a.attnotnull,
                          'comment', col_description(c.oid, a.attnum),
                          'values', (select jsonb_agg(e.enumlabel order by e.enumsortorder)
                                       from pg_enum e where e.enumtypid = a.atttypid)) order by a.attnum)
                 from pg_attribute a
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                  and has_column_privilege(c.oid, a.attnum, 'select')),
           'key', (select jsonb_agg(a.attname order by k.ord)
                     from pg_index i cross join lateral unnest(i.indkey) with ordinality as k (attnum, ord)
                          join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
                    where i.indrelid = c.oid and i.indisprimary),
           'references', (
               select jsonb_agg(jsonb_build_object(
                          'columns', (select jsonb_agg(a.attname order by k.ord)
                                        from unnest(f.conkey) with ordinality as k (attnum, ord)
                                             join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attnum),
                          'schema', tn.nspname,
                          'table', t.relname,
                          'to', (select jsonb_agg(a.attname order by k.ord)
                                   from unnest(f.confkey) with ordinality as k (attnum, ord)
                                        join pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.attnum)) order by f.conname)
                 from pg_constraint f
                      join pg_class t on t.oid = f.confrelid
                      join pg_namespace tn on tn.oid = t.relnamespace
                where f.conrelid = c.oid and f.contype = 'f'),
           'checks', (select jsonb_agg(pg_get_constraintdef(k.oid) order by k.conname)
                        from pg_constraint k where k.conrelid = c.oid and k.contype = 'c'))
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'm')
   and not c.relispartition
   and n.nspname not in ('pg_catalog', 'information_schema', 'agent') and n.nspname not like 'pg\_%%'
   and (%(schemas)s::text[] is null or n.nspname = any (%(schemas)s::text[]))
   and has_schema_privilege(n.oid, 'usage')
   and (has_table_privilege(c.oid, 'select') or has_any_column_privilege(c.oid, 'select'))
 order by n.nspname, c.relname
