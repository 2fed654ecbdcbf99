-- key: name, version
-- parameters: name
-- The version of a workflow that new runs use, with its nodes and edges.
select w.name, v.version, w.description, v.entry, v.exits, v.max_steps, extract(epoch from v.timeout)::float8 * 1000 as timeout_ms,
       v.run_as::text, v.made_by::text, v.made_at,
       (select coalesce(jsonb_agg(jsonb_build_object('name', n.name, 'kind', n.kind, 'settings', n.settings) order by n.name <> v.entry, n.name), '[]')
          from agent.workflow_node n where (n.tenant, n.workflow, n.version) = (v.tenant, v.workflow, v.version)) as nodes,
       (select coalesce(jsonb_agg(jsonb_build_object('from', e.from_node, 'to', e.to_node, 'condition', e.condition, 'label', e.label)
                                  order by e.priority, e.number), '[]')
          from agent.workflow_edge e where (e.tenant, e.workflow, e.version) = (v.tenant, v.workflow, v.version)) as edges
  from agent.workflow w join agent.workflow_version v on (v.tenant, v.workflow, v.version) = (w.tenant, w.name, w.version)
 where w.tenant = agent.current_tenant() and w.name = %(name)s
