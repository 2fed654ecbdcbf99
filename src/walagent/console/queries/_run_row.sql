r.id, r.state::text as state, r.kind,
coalesce(v.definition ->> 'agent', case when r.kind = 'question' then 'question' end) as agent,
r.attachment_version as version, r.change ->> 'op' as op,
-- include: _subject
,
left(case r.state
         when 'waiting_approval' then
             (select p.tool || '(' || coalesce((select string_agg(e.key || ' => ' || coalesce(e.value #>> '{}', 'NULL'), ', ' order by length(e.value::text) > 60)
                                                   from jsonb_each(p.arguments) e), '') || ')'
                from agent.approval p where p.run_id = r.id and p.state = 'pending' order by p.id limit 1)
         when 'running' then 'attempt ' || r.attempt
         when 'succeeded' then
             coalesce(
-- include: _what_calls_did
                      , r.result)
         when 'pending' then case when r.attempt > 0 then 'attempt ' || r.attempt + 1 end
         else concat_ws(' ', r.error ->> 'sqlstate', coalesce(r.error ->> 'reason', r.result)) end, 300) as what,
-- From the first claim to the end, with what it waited for between.
extract(epoch from r.finished_at - r.started_at)::float8 * 1000 as duration_ms,
coalesce(v.definition ->> 'model', (select coalesce(s.content ->> 'registered', s.content ->> 'model') from agent.step s
                                     where s.run_id = r.id and s.kind = 'reply' order by s.seq limit 1)) as model,
r.cost, r.tokens, r.attempt, r.max_attempts, r.blocked_by, r.next_attempt_at, r.committed_at, r.created_at, r.finished_at
