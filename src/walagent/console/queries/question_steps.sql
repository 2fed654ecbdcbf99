-- key: run_id, seq
-- parameters: session
-- What has been done so far for the latest question of a session of the principal.
select p.run_id, p.seq, p.kind::text, p.content ->> 'by' as by, p.content ->> 'step' as step, jsonb_array_length(p.content -> 'rows') as rows,
       nullif(p.content ->> 'error', '') as error,
       (select part -> 'arguments' -> 'steps' from jsonb_array_elements(p.content -> 'parts') part
         where part ->> 'name' = 'plan' and part -> 'arguments' ? 'steps' limit 1) as plan
  from agent.step p
 where p.kind in ('reply', 'result')
   and p.run_id = (select q.run_id
-- include: _question_from
                    where s.tenant = agent.current_tenant() and s.owner = agent.current_principal() and s.id = %(session)s and q.answer is null
                      and r.state in ('pending', 'running', 'waiting_retry')
                    order by q.id desc limit 1)
 order by p.seq
 limit 500
