-- key: id
-- parameters: thread, limit
-- The latest turns of agents in a thread.
select r.id, r.principal::text as agent, r.state::text, r.reason as kind, r.attempt, r.max_attempts, r.next_attempt_at,
       coalesce(r.error ->> 'reason', r.result) as what, r.cost, r.tokens, r.created_at, r.started_at, r.finished_at,
       (select s.kind::text from agent.step s where s.run_id = r.id order by s.seq desc limit 1) as step,
       exists (select from agent.step s where s.run_id = r.id) as has_context
  from agent.run r
       join agent.thread t on t.tenant = r.tenant and t.id = nullif(%(thread)s, '')::uuid
 where r.kind = 'turn' and r.ordering_key = %(thread)s
 order by r.id desc
 limit least(coalesce(nullif(%(limit)s, '')::integer, 50), 200)
