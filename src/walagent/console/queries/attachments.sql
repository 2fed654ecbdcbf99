-- key: id
-- Agents with their attachments, and what their runs did today.
select coalesce(a.id::text, 'agent/' || g.name) as id, g.name as agent, g.model, g.cascade, g.version as agent_version, a.name as attachment,
       case when a.id is not null and exists (select from pg_catalog.pg_class c where c.oid = a.relation) then a.relation::text
            else a.definition ->> 'table' end as relation,
       a.ops, a.condition, a.run_as::text as run_as, a.version,
       case when a.id is null then 'not attached'
            when a.paused and a.paused_reason is not null and a.paused_by is null then 'broken'
            when a.paused then 'paused'
            when b.state in ('pending', 'running') then 'backfill'
            when v.active_from is null then 'waits'
            else 'active' end as state,
       a.paused_reason, a.paused_by::text as paused_by, b.rows_done as backfilled, b.rows_total as to_backfill,
       coalesce(t.pending, 0) as pending, coalesce(t.waiting, 0) as waiting, coalesce(t.failed, 0) as failed,
       coalesce(d.done, 0) as done_today, d.p50_ms, d.cost as cost_today,
       a.columns, a.writes, a.ordering_key, a.max_depth, a.source,
       (select coalesce(jsonb_agg(jsonb_build_object('name', e ->> 'name', 'approval', (e ->> 'approval')::boolean, 'bind', e -> 'bind')), '[]')
          from jsonb_array_elements(a.definition -> 'tools') e) as tools,
-- include: _agent_refusal
       case when agent_internal.sees_runs() or agent.has_role('developer') then left(g.system_prompt, 20000) else '' end as system_prompt
  from agent.agent g
       left join agent.attachment a on a.tenant = g.tenant and a.agent = g.name
       left join agent.attachment_version v on v.attachment_id = a.id and v.version = a.version
       left join lateral (select l.state, l.rows_done, l.rows_total from agent.backfill l where l.attachment_id = a.id
                           order by l.generation desc limit 1) b on true
       -- By the partial indexes of states: there is none on all unfinished runs.
       left join (select u.attachment_id, count(*) filter (where u.state in ('pending', 'running')) as pending,
                         count(*) filter (where u.state in ('waiting_approval', 'needs_review')) as waiting,
                         count(*) filter (where u.state in ('failed', 'dead')) as failed
                    from (select r.attachment_id, r.state from agent.run r where r.state in ('waiting_approval', 'needs_review')
                          union all
                          select r.attachment_id, r.state from agent.run r where r.state in ('failed', 'dead')
                          union all
                          select r.attachment_id, r.state from agent.run r where r.state = 'running'
                          union all
                          select r.attachment_id, r.state from agent.run r
                           where r.state = 'pending' and r.blocked_by is null and r.not_before is null
                          union all
                          select r.attachment_id, r.state from agent.run r where r.state = 'pending' and r.blocked_by is not null
                          union all
                          select r.attachment_id, r.state from agent.run r
                           where r.state = 'pending' and r.blocked_by is null and r.not_before is not null) u
                   group by u.attachment_id) t on t.attachment_id = a.id
       left join (select r.attachment_id, count(*) filter (where r.state = 'succeeded') as done, sum(r.cost) as cost,
                         (percentile_cont(0.5) within group (order by extract(epoch from r.finished_at - coalesce(r.committed_at, r.created_at)) * 1000)
                            filter (where r.state = 'succeeded'))::float8 as p50_ms
                    from agent.run r where r.created_at >= date_trunc('day', now()) group by r.attachment_id) d on d.attachment_id = a.id
 where g.tenant = agent.current_tenant()
 order by g.name, a.name
 limit 500
