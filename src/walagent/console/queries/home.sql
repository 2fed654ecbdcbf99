-- key: runs_today
-- The figures of the first page.
with today as (
    select least(29, floor(30 * date_part('epoch', r.created_at - date_trunc('day', now()))
                           / (date_part('epoch', now() - date_trunc('day', now())) + 1)))::integer as b,
           count(*) as runs, count(*) filter (where r.state in ('failed', 'dead')) as failed, sum(r.cost) as cost
      from agent.run r where r.created_at >= date_trunc('day', now()) group by 1),
hour as (
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
select (select coalesce(sum(runs), 0)::bigint from today) as runs_today,
       (select coalesce(sum(failed), 0)::bigint from today) as failed_today,
       (select percentile_cont(0.5) within group (order by ms) from hour)::float8 as p50_ms,
       (select percentile_cont(0.95) within group (order by ms) from hour)::float8 as p95_ms,
       -- By the partial indexes: there is none on all pending runs.
       (select count(*) from (select from agent.run where state = 'pending' and blocked_by is null and not_before is null limit 100001) p)
           + (select count(*) from (select from agent.run where state = 'pending' and blocked_by is not null limit 100001) p)
           + (select count(*) from (select from agent.run where state = 'pending' and blocked_by is null and not_before is not null limit 100001) p)
           as pending,
       (select count(*) from agent.run where state = 'running') as running,
       (select sum(cost) from today) as cost_today,
       (select min(b.max_cost) from agent.budget_overview b
         where b.period = 'day' and b.agent is null and b.attachment is null and b.model is null and b.asker is null) as cost_limit,
       (select percentile_cont(0.5) within group (order by extract(epoch from n.created_at - n.committed_at))
          from (select r.created_at, r.committed_at from agent.run r where r.committed_at is not null order by r.id desc limit 50) n)::float8
           as lag_seconds,
       (select bytes from reader) as lag_bytes,
       (select end_lsn::text from reader) as checkpoint,
       -- Their state is hidden without this role: none would be a wrong count.
       case when pg_catalog.pg_has_role('pg_read_all_stats', 'usage')
            then (select count(*) from pg_catalog.pg_stat_replication where state = 'streaming' and application_name !~ '^walagent')::integer end as standbys,
       (select count(*) from agent.worker where seen_at > now() - interval '2 minutes')::integer as workers,
       (select coalesce(jsonb_agg(p.text), '[]')
          from (select 'No process reads the WAL' as text where not exists (select from reader where active)
                union all
                select count(*) || ' gaps wait for a decision: walagent wal resync' from agent.gap where resolved_at is null having count(*) > 0) p) as problems,
       (select jsonb_agg(runs order by b) from buckets) as runs_spark,
       (select jsonb_agg(failed order by b) from buckets) as failed_spark
