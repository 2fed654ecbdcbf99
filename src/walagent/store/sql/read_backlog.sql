-- The WAL that the server retains for the slot, and the part that is not confirmed, in bytes; whom commits wait for.
select coalesce(pg_wal_lsn_diff(w.lsn, s.restart_lsn), 0)::bigint,
       coalesce(pg_wal_lsn_diff(w.lsn, s.confirmed_flush_lsn), 0)::bigint,
       s.restart_lsn::text,
       w.lsn::text,
       current_setting('synchronous_standby_names')
  from (select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn) w
       left join pg_replication_slots s on s.slot_name = %(slot)s
