-- key: runs_today
-- The figures of the first page.
with
-- include: _counts
,
-- include: _figures
, hour as (
    select extract(epoch from r.finished_at - coalesce(r.committed_at, r.created_at)) * 1000 as ms
      from agent.run r
     where r.created_at >= now() - interval '1 hour' and r.state = 'succeeded'),
buckets as (
    select b, coalesce(t.runs, 0) as runs, coalesce(t.failed, 0) as failed from generate_series(0, 29) b left join today t using (b)),
reader as (
    select c.end_lsn, s.active, s.confirmed_flush_lsn,
           case when pg_catalog.pg_is_in_recovery() then null
                else greatest(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), s.confirmed_flush_lsn), 0)::bigint end as bytes
      from agent.checkpoint c left join pg_catalog.pg_replication_slots s on s.slot_name = c.slot
     where c.abandoned_at is null
     order by c.updated_at desc limit 1)
select f.runs_today, f.failed_today, f.pending, f.running, f.cost_today, f.lag_seconds, f.workers,
       (select percentile_cont(0.5) within group (order by ms) from hour)::float8 as p50_ms,
       (select percentile_cont(0.95) within group (order by ms) from hour)::float8 as p95_ms,
       (select min(b.max_cost) from agent.budget_overview b
         where b.period = 'day' and b.agent is null and b.attachment is null and b.model is null and b.asker is null) as cost_limit,
       (select bytes from reader) as lag_bytes,
       (select end_lsn::text from reader) as checkpoint,
       -- Their state is hidden without this role: none would be a wrong count.
       case when pg_catalog.pg_has_role('pg_read_all_stats', 'usage')
            then (select count(*) from pg_catalog.pg_stat_replication where state = 'streaming' and application_name !~ '^walagent')::integer end as standbys,
       (select coalesce(jsonb_agg(to_jsonb(p) order by p.urgency, p.since nulls last, p.text), '[]') from agent_internal.problems() p) as problems,
       (select jsonb_agg(runs order by b) from buckets) as runs_spark,
       (select jsonb_agg(failed order by b) from buckets) as failed_spark
  from figures f
