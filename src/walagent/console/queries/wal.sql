-- key: slot
-- The slot of each checkpoint: what it retains, how far it is confirmed and ingested.
select c.slot, c.plugin, c.generation, c.epoch, c.reader, c.end_lsn::text as checkpoint, c.updated_at, c.committed_at, c.abandoned_at,
       s.active, s.wal_status, s.restart_lsn::text, s.confirmed_flush_lsn::text as confirmed, s.safe_wal_size,
       p.lsn::text as current, pg_catalog.pg_wal_lsn_diff(p.lsn, s.restart_lsn)::bigint as retained,
       pg_catalog.pg_wal_lsn_diff(p.lsn, s.confirmed_flush_lsn)::bigint as lag,
       pg_catalog.pg_wal_lsn_diff(s.confirmed_flush_lsn, s.restart_lsn)::bigint as kept,
       current_setting('max_slot_wal_keep_size') as keep_size,
       (select count(distinct a.relation) from agent.attachment a join pg_catalog.pg_class r on r.oid = a.relation
         where r.relnamespace <> 'agent'::regnamespace)::integer as tables
  from agent.checkpoint c
       left join pg_catalog.pg_replication_slots s on s.slot_name = c.slot
       cross join (select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                               else pg_catalog.pg_current_wal_lsn() end as lsn) p
 order by c.abandoned_at nulls first, c.updated_at desc
 limit 20
