-- key: runs
-- The numbers beside the navigation.
select case when c.reltuples > 10000 and (select count(*) = 1 from agent.tenant) then c.reltuples::bigint
            else (select count(*) from (select from agent.run limit 10001) as r) end as runs,
       (select count(*) from agent.approval where state = 'pending') as approvals,
       (select count(*) from (select from agent.run where state in ('failed', 'dead') limit 10001) as r) as failed,
       (select count(*) from agent.agent) as agents,
       (select count(*) from agent.thread where state in ('active', 'paused')) as threads,
       (select count(distinct a.relation) from agent.attachment a) as tables
  from pg_catalog.pg_class c
 where c.oid = 'agent.run'::regclass
