-- key: id
-- parameters: id
-- One question of the principal's own sessions: its answer, its plan, and the rows that its run has kept.
select q.id, q.session_id as session, q.run_id, q.asked_at, q.text, q.answer, r.state::text, r.error ->> 'reason' as reason, r.tokens, r.cost,
       coalesce((select part -> 'arguments' -> 'steps'
                   from agent.step p cross join jsonb_array_elements(p.content -> 'parts') part
                  where p.run_id = r.id and p.kind = 'reply' and part ->> 'name' = 'plan' and part -> 'arguments' ? 'steps'
                  order by p.seq desc limit 1), '[]') as plan,
       coalesce((select jsonb_agg(p.content order by p.seq) from agent.step p where p.run_id = r.id and p.kind = 'result'), '[]') as results
-- include: _question_from
 where s.tenant = agent.current_tenant() and s.owner = agent.current_principal() and q.id = nullif(%(id)s, '')::bigint
