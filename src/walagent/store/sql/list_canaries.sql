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
       case s.side when 'canary' then c.share else 1 - c.share end as share,
       f.*,
       c.rollback_if,
       c.min_runs,
       c.begun_by::text as begun_by,
       c.begun_at,
       c.ended_by::text as ended_by,
       c.ended_at,
       c.reason
  from listed c
       cross join lateral (values (1, 'baseline', c.base_version), (2, 'canary', c.version)) as s (n, side, version)
       cross join lateral agent_internal.version_figures(c.attachment_id, s.version, c.after_run, c.last_run) f
 order by c.begun_at desc, c.attachment, c.version desc, s.n
