-- Canaries, the latest first, with the figures of both versions.  Those of the listed ones alone are added up.
with listed as materialized (
    select c.* from agent.canary c
     where c.tenant = agent.current_tenant() and (%(attachment)s::text is null or c.attachment = %(attachment)s)
     order by c.begun_at desc, c.attachment, c.version desc
     limit %(limit)s
)
select c.attachment,
       c.version as canary,
       c.state,
       s.side,
       s.version,
       case when s.side = 'baseline' and not c.shadow then 1 - c.share else c.share end as share,
       f.*,
       o.*,
       c.evaluation_id as evaluation,
       c.rollback_if,
       c.min_runs,
       c.begun_by::text as begun_by,
       c.begun_at,
       c.ended_by::text as ended_by,
       c.ended_at,
       c.reason
  from listed c
       cross join lateral (values (1, 'baseline', c.base_version),
                                  (2, case when c.shadow then 'shadow' else 'canary' end, c.version)) as s (n, side, version)
       cross join lateral (select v.* from agent_internal.version_figures(c.attachment_id, s.version, c.after_run, c.last_run) v where not c.shadow
                           union all
                           select v.* from agent_internal.shadow_figures(c.evaluation_id, s.side) v where c.shadow) f
       cross join lateral (select count(*) filter (where w.outcome = 'same') as same, count(*) filter (where w.outcome = 'other') as other,
                                  count(*) filter (where w.outcome = 'failed') as failed, count(*) filter (where w.outcome = 'waiting') as waiting
                             from agent.shadow_run w
                            where s.side = 'shadow' and w.attachment_id = c.attachment_id and w.version = c.version) o
 order by c.begun_at desc, c.attachment, c.version desc, s.n
