-- Transactions that have written and are open for long, the oldest first: a logical slot keeps the WAL since they began.
select null::integer as pid, p.gid as prepared, p.database::text as database, p.owner::text as application,
       extract(epoch from clock_timestamp() - p.prepared)::float8 as age
  from pg_catalog.pg_prepared_xacts p
 where p.prepared < clock_timestamp() - make_interval(secs => %(seconds)s)
union all
select a.pid, null, coalesce(a.datname::text, ''), a.application_name, extract(epoch from clock_timestamp() - a.xact_start)::float8
  from pg_catalog.pg_stat_activity a
 where a.backend_xid is not null and a.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
 order by 5 desc
