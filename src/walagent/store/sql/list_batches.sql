-- Batches of calls, the newest first.
select b.id, b.tenant, b.model, b.state, b.provider_id, b.items, b.answered, b.unanswered, b.unused, b.requeued, b.cost::float8 as cost,
       b.unused_cost::float8 as unused_cost, b.attempts, b.error, b.formed_at, b.submitted_at, b.ended_at
  from agent.batch b
 order by b.id desc
 limit %(limit)s
