-- Tables and views that the current role can read, as one JSON document each, by name.
--
-- A partitioned table is one table; its partitions are not listed.  `quoted` is set if a name must be
-- quoted.
select jsonb_build_object(
           'schema', n.nspname,
           'name', c.relname,
           'quoted', nullif(concat_ws('.', quote_ident(n.nspname), quote_ident(c.relname)), concat_ws('.', n.nspname, c.relname)),
           'kind', case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table'
                                  when 'p' then 'partitioned table' else 'table' end,
           'partitioned_by', case c.relkind when 'p' then pg_get_partkeydef(c.oid) end,
           'rows', case when c.relkind in ('r', 'm') and c.reltuples >= 0 then c.reltuples::int8
                        when c.relkind = 'p' then (select sum(leaf.reltuples)::int8
                                                     from pg_partition_tree(c.oid) part join pg_class leaf on leaf.oid = part.relid
                                                    where part.isleaf and leaf.reltuples >= 0) end,
           'comment', obj_description(c.oid, 'pg_class'),
           'columns', (
               select jsonb_agg(jsonb_build_object(
                          'name', a.attname,
                          'quoted', nullif(quote_ident(a.attname), a.attname::text),
                          'type', format_type(a.atttypid, a.atttypmod),
                          'text', base.typcategory = 'S',
                          'not_null', a.attnotnull,
                          'comment', col_description(c.oid, a.attnum),
                          'checks', (select jsonb_agg(pg_get_constraintdef(d.oid) order by d.conname)
                                       from pg_constraint d where d.contypid = a.atttypid and d.contype = 'c'),
                          'values', (select jsonb_agg(e.enumlabel order by e.enumsortorder)
                                       from pg_enum e where e.enumtypid = base.oid)) order by a.attnum)
                 from pg_attribute a
                      join pg_type own on own.oid = a.atttypid
                      -- The base type of a domain, or the element type of an array.
                      join pg_type under on under.oid = case own.typtype when 'd' then own.typbasetype else own.oid end
                      join pg_type base on base.oid = case under.typcategory when 'A' then under.typelem else under.oid end
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                  and has_column_privilege(c.oid, a.attnum, 'select')),
           'key', (select jsonb_agg(a.attname order by k.ord)
                     from pg_index i cross join lateral unnest(i.indkey) with ordinality as k (attnum, ord)
                          join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
                    where i.indrelid = c.oid and i.indisprimary),
           'unique', (select jsonb_agg(u.columns order by u.columns)
                        from (select (select jsonb_agg(a.attname order by k.ord)
                                        from unnest(i.indkey) with ordinality as k (attnum, ord)
                                             join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
                                       where k.ord <= i.indnkeyatts) as columns
                                from pg_index i
                               where i.indrelid = c.oid and i.indisunique and not i.indisprimary and i.indisvalid
                                 and i.indpred is null and i.indexprs is null) u),
           'references', (
               select jsonb_agg(jsonb_build_object(
                          'columns', (select jsonb_agg(a.attname order by k.ord)
                                        from unnest(f.conkey) with ordinality as k (attnum, ord)
                                             join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attnum),
                          'schema', tn.nspname,
                          'table', t.relname,
                          'quoted', concat_ws('.', quote_ident(tn.nspname), quote_ident(t.relname)),
                          'quoted_to', (select jsonb_agg(quote_ident(a.attname) order by k.ord)
                                          from unnest(f.confkey) with ordinality as k (attnum, ord)
                                               join pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.attnum),
                          'to', (select jsonb_agg(a.attname order by k.ord)
                                   from unnest(f.confkey) with ordinality as k (attnum, ord)
                                        join pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.attnum)) order by f.conname)
                 from pg_constraint f
                      join pg_class t on t.oid = f.confrelid and not t.relispartition
                      join pg_namespace tn on tn.oid = t.relnamespace
                where f.conrelid = c.oid and f.contype = 'f'),
           'checks', (select jsonb_agg(pg_get_constraintdef(k.oid) order by k.conname)
                        from pg_constraint k where k.conrelid = c.oid and k.contype = 'c'))
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'm', 'f')
   and not c.relispartition
   and n.nspname not in ('pg_catalog', 'information_schema', 'agent', 'agent_internal') and n.nspname not like 'pg\_%%'
   and (%(schemas)s::text[] is null or n.nspname = any (%(schemas)s::text[]))
   and has_schema_privilege(n.oid, 'usage')
   and (has_table_privilege(c.oid, 'select') or has_any_column_privilege(c.oid, 'select'))
 order by n.nspname, c.relname
