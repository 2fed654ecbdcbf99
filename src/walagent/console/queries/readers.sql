-- key: slot
-- What reads the WAL of this database from a slot: the reader, walagent serve sync and tail, and standbys.
select s.slot_name::text as slot, s.temporary,
       case when c.slot is not null then 'reader'
            when s.temporary and s.slot_name ~ '^walagent_(sync|tail)_' then split_part(s.slot_name, '_', 2)
            when s.slot_type = 'physical' then 'standby'
            else 'other' end as role,
       c.reader as process, s.active_pid as pid, s.active, s.wal_status,
       pg_catalog.pg_wal_lsn_diff(p.lsn, coalesce(s.confirmed_flush_lsn, s.restart_lsn))::bigint as lag,
       pg_catalog.pg_wal_lsn_diff(p.lsn, s.restart_lsn)::bigint as retained
  from pg_catalog.pg_replication_slots s
       left join agent.checkpoint c on c.slot = s.slot_name and c.abandoned_at is null
       cross join (select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                               else pg_catalog.pg_current_wal_lsn() end as lsn) p
 where s.database = current_database() or s.slot_type = 'physical'
 order by c.slot is null, s.temporary, s.slot_name
 limit 100
