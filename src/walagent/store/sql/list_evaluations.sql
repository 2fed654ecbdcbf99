-- Evaluations with their counts, newest first.
select o.id,
       o.attachment,
       o.agent,
       o.model,
       o.judge,
       o.dataset,
       o.draft,
       o.planned,
       o.state,
       o.cases,
       o.agreeing,
       o.differing,
       o.failing,
       o.labelled,
       o.were_right,
       o.are_right,
       o.judged,
       o.judged_better,
       o.judged_worse,
       o.tokens,
       o.cost::float8,
       o.median_seconds,
       o.recorded_tokens,
       o.recorded_cost::float8,
       o.recorded_median_seconds,
       o.made_by::text,
       o.started_at,
       o.ended_at,
       o.error
  from agent.evaluation_overview o
 where (%(evaluation)s::bigint is null or o.id = %(evaluation)s)
 order by o.id desc
 limit %(limit)s
