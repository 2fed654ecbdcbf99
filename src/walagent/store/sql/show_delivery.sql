-- A message with the state of its delivery.
select d.id::text, d.tenant, d.channel, d.kind, d.event, d.subject, o.body, d.run_id, d.state::text, d.attempt, d.next_attempt_at,
       d.error, d.result, d.cause_run, d.created_by, d.created_at, d.finished_at
  from agent.delivery d
       join agent.outbox o on o.tenant = d.tenant and o.id = d.id
 where d.id::text = %(delivery)s
