-- The position of the reader, and whether it is active; in bytes of WAL.
select p.end_lsn::text as ingested,
       pg_current_wal_lsn()::text as written,
       (pg_current_wal_lsn() - p.end_lsn)::bigint as behind,
       coalesce(s.active, false) as reading,
       s.slot_name is not null as slot_exists,
       (select count(*) from agent.gap g where g.slot = %(slot)s) as gaps
  from (select) one
       left join agent.checkpoint p on p.slot = %(slot)s
       left join pg_replication_slots s on s.slot_name = %(slot)s
