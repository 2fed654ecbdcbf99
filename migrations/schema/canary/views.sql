-- The canaries, each with the figures of its runs and of those of the version that it is compared with.
create or replace view agent.canary_figures with (security_invoker = on) as
select c.tenant,
       c.attachment,
       c.version as canary,
       c.state,
       s.side,
       s.version,
       case s.side when 'canary' then c.share else 1 - c.share end as share,
       f.runs,
       f.ended,
       f.failures,
       f.corrections,
       f.cost,
       f.latency,
       f.calls,
       c.begun_at
  from agent.canary c
       cross join lateral (values ('baseline', c.base_version), ('canary', c.version)) as s (side, version)
       cross join lateral agent_internal.version_figures(c.attachment_id, s.version, c.after_run, c.last_run) f;
comment on view agent.canary_figures is 'Canaries, and what the runs of their two versions came to since they began';
comment on column agent.canary_figures.tenant is 'Tenant of the attachment';
comment on column agent.canary_figures.attachment is 'Name of the attachment';
comment on column agent.canary_figures.canary is 'Version of the canary';
comment on column agent.canary_figures.state is 'State of the canary: running, promoted, rolled_back, replaced';
comment on column agent.canary_figures.side is 'baseline or canary';
comment on column agent.canary_figures.version is 'Version of this side';
comment on column agent.canary_figures.share is 'Share of the ordering keys that it has or had last';
comment on column agent.canary_figures.runs is 'Number of runs of changes since the canary began';
comment on column agent.canary_figures.ended is 'Number of them that succeeded or failed';
comment on column agent.canary_figures.failures is 'Share of these that failed';
comment on column agent.canary_figures.corrections is 'Share of these with a value that somebody changed, except with many rows';
comment on column agent.canary_figures.cost is 'Mean cost of these in US dollars';
comment on column agent.canary_figures.latency is 'Median of these of the seconds from start to end';
comment on column agent.canary_figures.calls is 'Mean number of model replies of these';
comment on column agent.canary_figures.begun_at is 'Time when the canary began';
