-- Runs, newest first.
select o.id,
       o.attachment,
       o.state::text,
       o.op,
       o.relation,
       o.key,
       o.reason,
       o.attempt,
       o.steps,
       o.tokens,
       o.cost::float8,
       o.error,
       o.created_at,
       o.finished_at
  from agent.run_overview o
 where (%(states)s::text[] is null or o.state::text = any (%(states)s))
   and (%(attachment)s::text is null or o.attachment = %(attachment)s)
   and (%(relation)s::text is null or o.relation = %(relation)s)
   and (%(key)s::text is null or o.key = %(key)s)
   and (%(run)s::bigint is null or o.id = %(run)s)
 order by o.id desc
 limit %(limit)s
