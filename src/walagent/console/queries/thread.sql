-- key: id
-- parameters: thread
-- One thread, and what the caller may do in it.
select t.id, t.title, t.state, t.last_number, t.agent_turns, t.max_agent_turns, t.summary, t.summary_upto,
       t.created_by::text, t.created_at, m.role,
       m.principal is not null as is_member,
       m.principal is not null and t.state <> 'archived' and (agent.has_scope('post') or agent.has_scope('approve')) as can_post,
       (m.role is not distinct from 'owner' or agent.has_role('admin'))
           and (agent.has_scope('post') or agent.has_scope('approve')) as can_manage
  from agent.thread t
       left join agent.member m on m.tenant = t.tenant and m.thread_id = t.id and m.principal = agent.current_principal()
 where t.id = nullif(%(thread)s, '')::uuid
