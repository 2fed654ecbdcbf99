-- What an operator asks first: who reads, what is queued, what waits, and what today cost.
with
-- include: _counts
,
-- include: _figures
select a.pid as reader_pid,
       case when s.active_pid <> c.reader_pid then concat_ws(' ', 'another client', nullif(a.application_name, ''))
            else coalesce(c.reader, a.application_name) end as reader,
       a.backend_start as reading_since,
       f.runs_today, f.failed_today, f.cost_today::float8, f.pending, f.running, f.lag_seconds, f.workers,
       (select count(*) from agent.run where state = 'waiting_approval')
           + (select count(*) from agent.run where state = 'waiting_retry') as waiting,
       (select count(*) from agent.run where state = 'needs_review') as reviews
  from figures f
       left join pg_catalog.pg_replication_slots s on s.slot_name = %(slot)s
       left join pg_catalog.pg_stat_activity a on a.pid = s.active_pid
       left join agent.checkpoint c on c.slot = %(slot)s
