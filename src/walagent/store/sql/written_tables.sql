-- The application's tables that this transaction has locked for writing, with their primary keys, and a function
-- of another role that is executed when a statement on them is planned.
select n.nspname::text, c.relname::text,
       coalesce((select array_agg(a.attname::text order by k.ord)
                   from pg_index i cross join lateral unnest(i.indkey) with ordinality as k (attnum, ord)
                        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
                  where i.indrelid = c.oid and i.indisprimary), '{}'),
       -- Planning a statement evaluates what is constant in these expressions.
       (select min(p.oid::regprocedure::text)
          from (select concat(i.indexprs, i.indpred) from pg_index i where i.indrelid = c.oid
                 union all select s.stxexprs::text from pg_statistic_ext s where s.stxrelid = c.oid) as x (tree)
               cross join lateral regexp_matches(x.tree, ':(?:funcid|opfuncid) (\d+)', 'g') m
               join pg_proc p on p.oid = m[1]::oid
         where p.oid >= 16384 and p.proowner <> (select oid from pg_roles where rolname = current_user))
  from (select distinct relation from pg_locks
         where pid = pg_backend_pid() and locktype = 'relation' and granted
           and mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')) l
       join pg_class c on c.oid = l.relation
       join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and c.relpersistence <> 't'
   and n.nspname !~ '^(pg_.*|information_schema|agent|agent_internal|agent_call|agent_signed)$'
 order by 1, 2
