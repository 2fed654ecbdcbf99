-- Attachments of the tenant with counts of their runs, and agents without attachments.
select g.name as agent,
       g.model,
       a.name as attachment,
       case when a.id is not null and not exists (select from pg_catalog.pg_class where oid = a.relation)
            then format('%%I.%%I (dropped)', a.definition ->> 'schema', a.definition ->> 'table')
            else a.relation::text end as relation,
       a.ops as "on",
       a.condition as "when",
       a.run_as,
       a.version,
       (a.canary_definition ->> 'version')::integer as canary,
       a.canary_share,
       a.canary_shadow,
       a.source,
       case when a.id is null then 'not attached'
            when a.paused then 'paused'
            when v.active_from is null then 'waits for the reader'
            else 'active' end as state,
       a.paused_reason,
       a.paused_by::text as paused_by,  -- null if walagent paused it
       coalesce(r.pending, 0) as pending,
       coalesce(r.running, 0) as running,
       coalesce(r.waiting, 0) as waiting,
       coalesce(r.failed, 0) as failed,
       b.state as backfill,
       b.rows_done as backfilled,
       b.rows_total as to_backfill
  from agent.agent g
       left join agent.attachment a on a.tenant = g.tenant and a.agent = g.name
       left join agent.attachment_version v on v.attachment_id = a.id and v.version = a.version
       left join lateral (select * from agent.backfill l where l.attachment_id = a.id
                           order by l.generation desc limit 1) b on true
       left join agent_internal.unfinished_runs() r on r.attachment_id = a.id
 where g.tenant = agent.current_tenant()
 order by g.name, a.name
