-- key: id
-- The latest questions of the principal's own sessions.
select q.id, q.session_id as session, q.run_id, q.asked_at, q.text, q.answer ->> 'status' as status, left(q.answer ->> 'answer', 300) as answer,
       r.state::text, r.error ->> 'reason' as reason
-- include: _question_from
 where s.tenant = agent.current_tenant() and s.owner = agent.current_principal()
 order by q.id desc
 limit 50
