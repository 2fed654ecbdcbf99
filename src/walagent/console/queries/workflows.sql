-- key: name
-- Workflows, and their runs among the newest 20,000 of all.
with newest as (
    select r.change #>> '{new,workflow}' as workflow, r.state, r.created_at
      from agent.run r
     where r.kind = 'node' and r.id > (select max(n.id) from agent.run n) - 20000),
counted as (
    select n.workflow, count(*) as runs,
           count(*) filter (where n.state in ('pending', 'running', 'waiting_retry')) as active,
           count(*) filter (where n.state in ('waiting_approval', 'needs_review')) as waiting,
           count(*) filter (where n.state in ('failed', 'dead')) as failed,
           max(n.created_at) as last_at
      from newest n
     group by 1)
select w.name, w.version, w.description, w.updated_at,
       (select count(*) from agent.workflow_node o where (o.tenant, o.workflow, o.version) = (w.tenant, w.name, w.version)) as nodes,
       coalesce(c.runs, 0) as runs, coalesce(c.active, 0) as active, coalesce(c.waiting, 0) as waiting, coalesce(c.failed, 0) as failed, c.last_at
  from agent.workflow w left join counted c on c.workflow = w.name
 where w.tenant = agent.current_tenant()
 order by w.name
 limit 1000
