-- key: name
-- parameters: thread
-- People and agents that can be added to a thread; without one, to a new one.
select p.name::text, p.kind,
       p.kind <> 'agent' or exists (select from agent.attachment a
                                     where a.tenant = p.tenant and a.agent = p.name and a.relation = 'agent.event'::regclass) as takes_turns
  from agent.principal p
 where p.active and p.name <> agent.current_principal()
   and not exists (select from agent.member m
                    where m.tenant = p.tenant and m.principal = p.name and m.thread_id = nullif(%(thread)s, '')::uuid)
 order by p.kind <> 'agent', p.name
 limit 1000
