-- key: count
-- parameters: state, agent, relation, key, kind, reason, since, tenant, q
-- How many runs match: exact up to 10,000; the statistics know all of them, and else it is at least 10,000.
with seen as (
    select count(*) as n
      from (select from agent.run r
             where
-- include: _run_filter
             limit 10001) as found)
select case when n <= 10000 then n
            when concat(%(state)s, %(agent)s, %(relation)s, %(key)s, %(kind)s, %(reason)s, %(since)s, %(tenant)s, %(q)s) = ''
                 and agent_is_alone
                then greatest(10001, (select c.reltuples::bigint from pg_catalog.pg_class c where c.oid = 'agent.run'::regclass))
            else 10000 end as count,
       n > 10000 as is_estimate,
       n > 10000 and not (concat(%(state)s, %(agent)s, %(relation)s, %(key)s, %(kind)s, %(reason)s, %(since)s, %(tenant)s, %(q)s) = ''
                          and agent_is_alone) as is_least
  from seen, (select count(*) = 1 as agent_is_alone from agent.tenant) as tenants
