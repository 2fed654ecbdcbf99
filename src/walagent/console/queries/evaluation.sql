-- key: id
-- parameters: evaluation
-- One evaluation with its counts; tested: cases with a label and a recorded run.
select o.id, o.attachment, o.agent, o.model, o.judge, o.dataset, o.shadow, o.state, o.planned, o.cases, o.agreeing, o.differing, o.failing,
       o.labelled, o.were_right, o.are_right, o.judged, o.judged_better, o.judged_worse, o.tokens, o.cost, o.median_seconds,
       o.recorded_tokens, o.recorded_cost, o.recorded_median_seconds, o.made_by::text, o.started_at, o.ended_at, left(o.error, 2000) as error,
       left(o.draft ->> 'system_prompt', 20000) as system_prompt, t.*,
-- include: _candidate
  from agent.evaluation_overview o
       cross join lateral (
           select count(*) as tested, count(*) filter (where x.was_right) as first_right, count(*) filter (where x.is_right) as second_right,
                  count(*) filter (where x.is_right and not x.was_right) as better, count(*) filter (where x.was_right and not x.is_right) as worse
             from agent.evaluation_case x
            where x.evaluation_id = o.id and x.was_right is not null and x.is_right is not null) t
 where o.id = %(evaluation)s::bigint
