-- key: count
-- parameters: state, agent, relation, key, kind, reason, sqlstate, model, duration, cost, since, until, ended, tenant, q, oldest, before
-- How many runs match: exact up to 10,000, and else at least that many: statistics would count those of other tenants.
select least(count(*), 10000) as count, count(*) > 10000 as is_least
  from (select from agent.run r
         where (%(before)s = '' or r.id < nullif(%(before)s, '')::bigint)
           and
-- include: _run_filter
         limit 10001) as found
