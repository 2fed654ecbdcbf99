-- Memories that the caller may read: those of a thread, if it can see that thread.
  from agent.memory m
       left join agent.thread t on t.tenant = m.tenant and t.id = m.thread_id
       cross join lateral (select
-- include: _memory_state
                           as state) s
 where m.tenant = agent.current_tenant() and (agent.has_role('viewer') or agent.has_role('developer'))
   and (m.thread_id is null or t.id is not null)
