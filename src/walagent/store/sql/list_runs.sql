-- Runs, newest first.
select o.id,
       o.kind,
       o.attachment,
       o.version,
       o.state::text,
       o.op,
       o.relation,
       o.key,
       o.reason,
       o.priority,
       o.attempt,
       o.steps,
       o.tokens,
       (select coalesce(sum(s.input_tokens), 0) from agent.step s where s.run_id = o.id) as input,
       (select coalesce(sum(s.cached_tokens), 0) from agent.step s where s.run_id = o.id) as cached,
       (select coalesce(sum(s.output_tokens), 0) from agent.step s where s.run_id = o.id) as output,
       o.cost::float8,
       o.error,
       o.created_at,
       o.started_at,
       o.finished_at
  from agent.run_overview o
 where (%(states)s::agent.run_state[] is null or o.state = any (%(states)s::agent.run_state[]))
   and (%(attachment)s::text is null or o.attachment = %(attachment)s)
   and (%(relation)s::text is null or o.relation = %(relation)s)
   and (%(key)s::text is null or o.key = %(key)s)
   and (%(run)s::bigint is null or o.id = %(run)s)
   and (%(since)s::timestamptz is null or coalesce(o.finished_at, o.created_at) >= %(since)s)
   and (%(age)s::interval is null or coalesce(o.finished_at, o.created_at) >= now() - %(age)s)
 order by o.id desc
 limit %(limit)s
