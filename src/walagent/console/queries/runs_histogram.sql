-- key: at, state
-- parameters: state, agent, relation, key, kind, reason, sqlstate, model, duration, cost, since, until, ended, tenant, q, oldest
-- The newest 10,000 runs that match, counted by state in 48 parts of the time from the first of them to now.
with matching as (
    select r.created_at, r.state from agent.run r
     where
-- include: _run_filter
     order by r.id desc
     limit 10001),
span as (
    select min(m.created_at) as start, (greatest(max(m.created_at), case when %(until)s = '' then now() end) - min(m.created_at)) / 48 as part,
           count(*) > 10000 as is_least
      from matching m)
select s.start + s.part * b as at, s.start + s.part * (b + 1) as until, m.state::text as state, count(*)::integer as runs, s.is_least
  from span s
       cross join matching m
       cross join lateral (select case when s.part > interval '0'
                                       then least(floor(extract(epoch from m.created_at - s.start) / extract(epoch from s.part)), 47) else 0 end as b) p
 group by s.start, s.part, b, m.state, s.is_least
 order by 1, 3
