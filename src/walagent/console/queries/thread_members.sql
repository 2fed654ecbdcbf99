-- key: name
-- parameters: thread
-- People and agents of a thread.
select m.principal::text as name, p.kind, m.role, m.joined_at, m.seen, p.active
  from agent.member m join agent.principal p on p.tenant = m.tenant and p.name = m.principal
 where m.thread_id = nullif(%(thread)s, '')::uuid
 order by p.kind = 'agent', m.joined_at, m.principal
