-- The slot's debts, and people's.
select coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0)::bigint,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.confirmed_flush_lsn), 0)::bigint,
       (select count(*) from agent.approval where state = 'pending'),
       coalesce((select a.wait_event = 'WaitForStandbyConfirmation' from pg_stat_activity a where a.pid = s.active_pid), false)
  from (select 1) one
       left join pg_replication_slots s on s.slot_name = %(slot)s
