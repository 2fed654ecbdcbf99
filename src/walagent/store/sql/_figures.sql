-- The figures that `walagent status` and the first page have in common.  After _counts.
today as (
    select least(29, floor(30 * date_part('epoch', r.created_at - date_trunc('day', now()))
                           / (date_part('epoch', now() - date_trunc('day', now())) + 1)))::integer as b,
           count(*) as runs, count(*) filter (where r.state in ('failed', 'dead')) as failed, sum(r.cost) as cost
      from agent.run r where r.created_at >= date_trunc('day', now()) group by 1),
figures as (
    select (select coalesce(sum(runs), 0)::bigint from today) as runs_today,
           (select coalesce(sum(failed), 0)::bigint from today) as failed_today,
           (select sum(cost) from today) as cost_today,
           (select percentile_cont(0.5) within group (order by extract(epoch from n.created_at - n.committed_at))
              from (select r.created_at, r.committed_at from agent.run r where r.committed_at is not null order by r.id desc limit 50) n)::float8
               as lag_seconds,
           c.pending, c.running, c.workers, c.gaps
      from counts c)
