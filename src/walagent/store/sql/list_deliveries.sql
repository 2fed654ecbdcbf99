-- Messages with the state of their delivery, the newest first.
select d.id::text, d.tenant, d.channel, d.kind, d.event, d.subject, d.run_id, d.state::text, d.attempt, d.next_attempt_at, d.error,
       d.result, d.cause_run, d.created_by, d.created_at, d.finished_at
  from agent.delivery d
 where d.channel = coalesce(%(channel)s::text, d.channel)
   and d.state::text = coalesce(%(state)s::text, d.state::text)
 order by d.created_at desc, d.run_id desc
 limit %(limit)s::bigint
