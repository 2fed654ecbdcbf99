-- The slot's debts, and people's.
select coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0)::bigint,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.confirmed_flush_lsn), 0)::bigint,
       (select count(*) from agent.approval where state = 'pending')
  from (select 1) one
       left join pg_replication_slots s on s.slot_name = %(slot)s
