-- key: entries
-- How many rows the audit of the tenant has: its numbers have no gaps; and since when.
select a.number as entries, f.at as since
  from agent.audit a left join agent.audit f on f.tenant = a.tenant and f.number = 1
 where a.tenant = agent.current_tenant()
 order by a.number desc
 limit 1
