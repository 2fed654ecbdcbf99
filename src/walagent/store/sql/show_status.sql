-- What an operator asks first: who reads, what is queued, what waits, and what today cost.  No row of a large table is
-- read but those of runs that have not ended, and of today's.
with open as (
    select state, count(*) as n from agent.run
     where state not in ('succeeded', 'cancelled', 'skipped', 'failed', 'dead') group by state),
today as (
    select count(*) as runs, count(*) filter (where state in ('failed', 'dead')) as failed, sum(cost)::float8 as cost
      from agent.run where created_at >= date_trunc('day', now())),
latest as (
    select r.created_at - r.committed_at as late from agent.run r where r.committed_at is not null order by r.id desc limit 50)
select a.pid as reader_pid,
       coalesce(c.reader, a.application_name) as reader,
       a.backend_start as reading_since,
       c.end_lsn::text as checkpoint,
       s.wal_status,
       (select jsonb_object_agg(state, n) from open) as runs,
       (select percentile_cont(0.5) within group (order by extract(epoch from late)) from latest)::float8 as late,
       (select count(*) from agent.worker where seen_at > now() - interval '2 minutes')::integer as workers,
       (select count(*) from agent.gap where resolved_at is null)::integer as gaps,
       t.runs as runs_today, t.failed as failed_today, t.cost as cost_today
  from today t
       left join pg_catalog.pg_replication_slots s on s.slot_name = %(slot)s
       left join pg_catalog.pg_stat_activity a on a.pid = s.active_pid
       left join agent.checkpoint c on c.slot = %(slot)s
