-- The changes that shadows got, too, and what came of each.
create or replace view agent.shadow_run with (security_invoker = on) as
select s.tenant,
       c.attachment_id,
       c.attachment,
       c.version,
       s.run_id,
       r.key,
       case when x.evaluation_id is null then 'waiting'
            when x.candidate ->> 'state' <> 'succeeded' then 'failed'
            when x.agrees then 'same' else 'other' end as outcome,
       x.recorded,
       x.candidate,
       c.evaluation_id
  from agent_internal.shadowed_run s
       join agent.canary c on (c.attachment_id, c.version) = (s.attachment_id, s.version)
       join agent.run r on r.id = s.run_id
       left join agent.evaluation_case x on (x.evaluation_id, x.run_id) = (c.evaluation_id, s.run_id);
comment on view agent.shadow_run is 'Changes that shadows got, too, and what came of each';
comment on column agent.shadow_run.tenant is 'Tenant of the run';
comment on column agent.shadow_run.attachment_id is 'Attachment, which may have been removed';
comment on column agent.shadow_run.attachment is 'Name of the attachment when the shadow began';
comment on column agent.shadow_run.version is 'Version of the shadow';
comment on column agent.shadow_run.run_id is 'Run of the version that there is';
comment on column agent.shadow_run.key is 'Primary key of its row';
comment on column agent.shadow_run.outcome is 'waiting; same: both did the same; other: not; failed: the shadow did not succeed';
comment on column agent.shadow_run.recorded is 'What the run did: state, result, error, calls, tokens, cost, seconds';
comment on column agent.shadow_run.candidate is 'What the shadow would have done, as recorded has it';
comment on column agent.shadow_run.evaluation_id is 'Evaluation that has it';

-- The canaries, each with the figures of its runs and of those of the version that it is compared with.
create or replace view agent.canary_figures with (security_invoker = on) as
select c.tenant,
       c.attachment,
       c.version as canary,
       c.state,
       s.side,
       s.version,
       case when s.side = 'baseline' and not c.shadow then 1 - c.share else c.share end as share,
       f.runs,
       f.ended,
       f.failures,
       f.corrections,
       f.cost,
       f.latency,
       f.calls,
       o.same,
       o.other,
       o.failed,
       o.waiting,
       c.begun_at
  from agent.canary c
       cross join lateral (values ('baseline', c.base_version), (case when c.shadow then 'shadow' else 'canary' end, c.version)) as s (side, version)
       cross join lateral (select v.* from agent_internal.version_figures(c.attachment_id, s.version, c.after_run, c.last_run) v where not c.shadow
                           union all
                           select v.* from agent_internal.shadow_figures(c.evaluation_id, s.side) v where c.shadow) f
       cross join lateral (select count(*) filter (where w.outcome = 'same') as same, count(*) filter (where w.outcome = 'other') as other,
                                  count(*) filter (where w.outcome = 'failed') as failed, count(*) filter (where w.outcome = 'waiting') as waiting
                             from agent.shadow_run w
                            where s.side = 'shadow' and w.attachment_id = c.attachment_id and w.version = c.version) o;
comment on view agent.canary_figures is 'Canaries, and what the runs of their two versions came to since they began';
comment on column agent.canary_figures.tenant is 'Tenant of the attachment';
comment on column agent.canary_figures.attachment is 'Name of the attachment';
comment on column agent.canary_figures.canary is 'Version of the canary';
comment on column agent.canary_figures.state is 'State of the canary: running, promoted, rolled_back, replaced';
comment on column agent.canary_figures.side is 'baseline, canary or shadow';
comment on column agent.canary_figures.version is 'Version of this side';
comment on column agent.canary_figures.share is 'Share of the ordering keys that it has or had last';
comment on column agent.canary_figures.runs is 'Number of runs of changes since the canary began';
comment on column agent.canary_figures.ended is 'Number of them that succeeded or failed';
comment on column agent.canary_figures.failures is 'Share of these that failed';
comment on column agent.canary_figures.corrections is 'Share of these with a value that somebody changed, except with many rows';
comment on column agent.canary_figures.cost is 'Mean cost of these in US dollars';
comment on column agent.canary_figures.latency is 'Median of these of the seconds from start to end';
comment on column agent.canary_figures.calls is 'Mean number of model replies of these';
comment on column agent.canary_figures.same is 'Number of changes of which a shadow did the same; 0 of the other sides, as the next ones';
comment on column agent.canary_figures.other is 'Number of them of which it did something else';
comment on column agent.canary_figures.failed is 'Number of them on which it did not succeed';
comment on column agent.canary_figures.waiting is 'Number of them that wait for it';
comment on column agent.canary_figures.begun_at is 'Time when the canary began';
