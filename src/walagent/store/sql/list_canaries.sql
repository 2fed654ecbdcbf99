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
       f.side,
       f.version,
       f.share,
       f.runs,
       f.ended,
       f.failures,
       f.corrections,
       f.cost,
       f.latency,
       f.calls,
       f.same,
       f.other,
       f.failed,
       f.waiting,
       c.evaluation_id as evaluation,
       c.rollback_if,
       c.min_runs,
       c.begun_by::text as begun_by,
       c.begun_at,
       c.ended_by::text as ended_by,
       c.ended_at,
       c.reason
  from listed c
       join agent.canary_figures f
         on (f.tenant, f.attachment, f.canary, f.begun_at) = (c.tenant, c.attachment, c.version, c.begun_at)
 order by c.begun_at desc, c.attachment, c.version desc, f.side = 'baseline' desc
