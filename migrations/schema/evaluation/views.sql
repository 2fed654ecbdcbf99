create or replace view agent.evaluation_overview with (security_invoker = on) as
    select e.id, e.attachment, e.agent, e.model, e.judge, e.dataset, e.draft, e.planned, e.shadow,
           case when e.error is not null or e.ended_at is null and e.shadow is null and e.held_until < agent_internal.now() then 'broken_off'
                when e.ended_at is null then 'running'
                else 'finished' end as state,
           c.cases, c.agreeing, c.differing, c.failing, c.labelled, c.were_right, c.are_right,
           c.judged, c.judged_better, c.judged_worse, c.tokens, c.cost, c.median_seconds,
           c.recorded_tokens, c.recorded_cost, c.recorded_median_seconds,
           e.made_by, e.started_at, e.ended_at, e.error, e.tenant
      from agent.evaluation e
           cross join lateral (
               select count(*) as cases, count(*) filter (where x.agrees) as agreeing, count(*) filter (where not x.agrees) as differing,
                      count(*) filter (where o.candidate ->> 'state' is distinct from 'succeeded') as failing,
                      count(*) filter (where x.is_right is not null) as labelled, count(*) filter (where x.was_right) as were_right,
                      count(*) filter (where x.is_right) as are_right, count(x.verdict) as judged,
                      count(*) filter (where x.verdict ->> 'right' = 'candidate') as judged_better,
                      count(*) filter (where x.verdict ->> 'right' = 'recorded') as judged_worse,
                      coalesce(sum((o.candidate ->> 'tokens')::bigint), 0) as tokens,
                      sum((o.candidate ->> 'cost')::numeric) + coalesce(sum((x.verdict ->> 'cost')::numeric), 0) as cost,
                      percentile_cont(0.5) within group (order by (o.candidate ->> 'seconds')::float8) as median_seconds,
                      coalesce(sum((o.recorded ->> 'tokens')::bigint), 0) as recorded_tokens,
                      sum((o.recorded ->> 'cost')::numeric) as recorded_cost,
                      percentile_cont(0.5) within group (order by (o.recorded ->> 'seconds')::float8) as recorded_median_seconds
                 from agent.evaluation_case x
                      -- Each is read once: large ones are stored apart.
                      cross join lateral (select x.candidate - '{calls,changes}'::text[] as candidate, x.recorded - '{calls}'::text[] as recorded offset 0) o
                where x.evaluation_id = e.id) c;
comment on view agent.evaluation_overview is 'Evaluations with their counts';
comment on column agent.evaluation_overview.id is 'Evaluation ID';
comment on column agent.evaluation_overview.attachment is 'Attachment whose changes were replayed; NULL: saved questions were asked';
comment on column agent.evaluation_overview.agent is 'Its agent; NULL: questions';
comment on column agent.evaluation_overview.model is 'Model of the candidate';
comment on column agent.evaluation_overview.judge is 'Model that judged';
comment on column agent.evaluation_overview.dataset is 'Dataset of the changes';
comment on column agent.evaluation_overview.draft is 'How the candidate differs from the version in use';
comment on column agent.evaluation_overview.planned is 'Number of cases to execute';
comment on column agent.evaluation_overview.shadow is 'Version of the shadow whose trials it has; NULL: a replay';
comment on column agent.evaluation_overview.state is 'running, finished, or broken_off: its process ended before';
comment on column agent.evaluation_overview.cases is 'Cases that were executed';
comment on column agent.evaluation_overview.agreeing is 'Cases in which the effects are those of the recorded run';
comment on column agent.evaluation_overview.differing is 'Cases in which they are not';
comment on column agent.evaluation_overview.failing is 'Cases in which the candidate did not succeed';
comment on column agent.evaluation_overview.labelled is 'Cases with a label';
comment on column agent.evaluation_overview.were_right is 'Labelled cases in which the recorded run was right';
comment on column agent.evaluation_overview.are_right is 'Labelled cases in which the candidate is right';
comment on column agent.evaluation_overview.judged is 'Cases that the judge was asked about';
comment on column agent.evaluation_overview.judged_better is 'Of these, cases in which it calls the candidate alone right';
comment on column agent.evaluation_overview.judged_worse is 'Of these, cases in which it calls the recorded run alone right';
comment on column agent.evaluation_overview.tokens is 'Tokens of the candidate';
comment on column agent.evaluation_overview.cost is 'US dollars of candidate and judge; NULL: unknown';
comment on column agent.evaluation_overview.median_seconds is 'Median of the seconds that the model of the candidate took for a case';
comment on column agent.evaluation_overview.recorded_tokens is 'Tokens of the recorded runs';
comment on column agent.evaluation_overview.recorded_cost is 'US dollars of the recorded runs';
comment on column agent.evaluation_overview.recorded_median_seconds is 'Median of the seconds that the models of the recorded runs took';
comment on column agent.evaluation_overview.made_by is 'Who started it';
comment on column agent.evaluation_overview.started_at is 'Time of the start';
comment on column agent.evaluation_overview.ended_at is 'Time of the end';
comment on column agent.evaluation_overview.error is 'Why it was broken off';
comment on column agent.evaluation_overview.tenant is 'Tenant of the attachment';
