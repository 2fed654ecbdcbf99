-- Whether the server waits for its standbys, and the number of pending approvals.
select (select count(*) from agent.approval where state = 'pending'),
       coalesce((select a.wait_event = 'WaitForStandbyConfirmation' from pg_stat_activity a where a.pid = s.active_pid), false)
  from (select 1) one
       left join pg_replication_slots s on s.slot_name = %(slot)s
