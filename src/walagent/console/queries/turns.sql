-- key: id
-- Turns that are executed now, of threads that the caller can see.
select r.id, r.ordering_key as thread_id, r.principal::text as agent
  from agent.run r join agent.thread t on t.tenant = r.tenant and t.id::text = r.ordering_key
 where r.kind = 'turn' and r.state = 'running'
 order by r.id
 limit 500
