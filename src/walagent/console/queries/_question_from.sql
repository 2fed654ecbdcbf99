  from agent.question q
       join agent.session s on s.tenant = q.tenant and s.id = q.session_id
       left join agent.run r on r.tenant = q.tenant and r.id = q.run_id
