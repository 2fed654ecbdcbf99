-- key: agent
-- What the runs of today cost, by agent.
select coalesce(v.definition ->> 'agent', case r.kind when 'question' then 'questions' else r.kind end) as agent, sum(r.cost) as cost
  from agent.run r
       left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
 where r.created_at >= date_trunc('day', now()) and (r.cost is not null or r.tokens > 0)
 group by 1
 order by 2 desc nulls last
 limit 50
