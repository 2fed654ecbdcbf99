-- The application's tables that this transaction has locked for writing, with their primary keys.
select n.nspname::text, c.relname::text,
       coalesce((select array_agg(a.attname::text order by k.ord)
                   from pg_index i cross join lateral unnest(i.indkey) with ordinality as k (attnum, ord)
                        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
                  where i.indrelid = c.oid and i.indisprimary), '{}'),
       c.oid::int8
  from (select distinct relation from pg_locks
         where pid = pg_backend_pid() and locktype = 'relation' and granted
           and mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')) l
       join pg_class c on c.oid = l.relation
       join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and c.relpersistence <> 't'
   and n.nspname !~ '^(pg_.*|information_schema|agent|agent_internal|agent_call|agent_signed)$'
 order by 1, 2
