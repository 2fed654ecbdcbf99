-- Transactions that have written to a table or one of its partitions, and are open.  A prepared one has no PID.
select distinct l.virtualtransaction, l.pid
  from pg_locks l
       join pg_database d on d.oid = l.database and d.datname = current_database()
 where l.locktype = 'relation' and l.granted and l.pid is distinct from pg_backend_pid()
   and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
   and l.relation in (
       select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %(schema)s and c.relname = %(name)s
       union
       select t.relid
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
              cross join lateral pg_partition_tree(c.oid) t
        where n.nspname = %(schema)s and c.relname = %(name)s)
