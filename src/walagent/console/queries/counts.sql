-- key: runs
-- The numbers beside the navigation.
select (select count(*) from (select from agent.run limit 10001) as r) as runs,  -- statistics would count those of other tenants
       (select count(*) from agent.approval where state = 'pending') as approvals,
       (select count(*) from (select from agent.run where state in ('failed', 'dead') and finished_at >= now() - interval '7 days' limit 10001) as r) as failed,  -- those that the page Failed opens with
       (select count(*) from agent.agent) as agents,
       (select count(*) from agent.thread where state in ('active', 'paused')) as threads,
       (select count(distinct a.relation) from agent.attachment a join pg_catalog.pg_class c on c.oid = a.relation
         where c.relnamespace <> 'agent'::regnamespace) as tables  -- those of the page Tables
