-- key: minute
-- Runs that ended, their latency, and the longest time from commit to ingestion, in each of the last 60 minutes.
with ended as (
    select date_trunc('minute', r.finished_at) as minute, r.state,
           extract(epoch from r.finished_at - coalesce(r.committed_at, r.created_at)) * 1000 as ms
      from agent.run r
     where r.created_at >= now() - interval '3 hours'
       and r.finished_at >= date_trunc('minute', now()) - interval '59 minutes'
       and r.state in ('succeeded', 'failed', 'dead')),
ingested as (
    select date_trunc('minute', r.created_at) as minute, max(extract(epoch from r.created_at - r.committed_at)) * 1000 as ms
      from agent.run r
     where r.created_at >= date_trunc('minute', now()) - interval '59 minutes' and r.committed_at is not null
     group by 1)
select m as minute,
       count(e.state) filter (where e.state = 'succeeded')::integer as finished,
       count(e.state) filter (where e.state <> 'succeeded')::integer as failed,
       (percentile_cont(0.5) within group (order by e.ms) filter (where e.state = 'succeeded'))::float8 as p50_ms,
       (percentile_cont(0.95) within group (order by e.ms) filter (where e.state = 'succeeded'))::float8 as p95_ms,
       max(i.ms)::float8 as lag_ms
  from generate_series(date_trunc('minute', now()) - interval '59 minutes', date_trunc('minute', now()), interval '1 minute') m
       left join ended e on e.minute = m
       left join ingested i on i.minute = m
 group by m
 order by m
