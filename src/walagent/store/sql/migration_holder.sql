-- The session that holds the lock of migrations in this database.
select l.pid, a.usename, a.application_name
  from pg_locks l join pg_stat_activity a using (pid)
 where l.locktype = 'advisory' and l.classid = 0 and l.objid = %(lock)s::bigint::oid and l.objsubid = 1 and l.granted
   and l.database = (select oid from pg_database where datname = current_database())
