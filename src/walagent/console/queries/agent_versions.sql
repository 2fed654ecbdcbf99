-- key: version
-- parameters: agent
-- The versions of an agent, newest first; the first is in use.
select v.version, v.made_at, v.made_by, v.version = g.version as is_current, v.definition ->> 'model' as model,
       coalesce(v.definition ->> 'system_prompt', '') as system_prompt,
       coalesce(v.definition -> 'tools', '[]') as tools, v.definition ->> 'persona' as persona,
       jsonb_build_object('max_steps', v.definition -> 'max_steps', 'max_tokens', v.definition -> 'max_tokens',
                          'max_cost', v.definition -> 'max_cost', 'max_seconds', v.definition -> 'max_seconds',
                          'max_attempts', v.definition -> 'max_attempts',
                          'max_output_tokens', v.definition -> 'max_output_tokens') as limits,
-- include: _agent_refusal
       (select string_agg(a.name, ', ' order by a.name) from agent.attachment a
         where a.tenant = g.tenant and a.agent = g.name and a.source = 'file') as of_file,
       (select coalesce(jsonb_agg(a.name order by a.name), '[]') from agent.attachment a
         where a.tenant = g.tenant and a.agent = g.name and a.relation <> 'agent.event'::regclass) as attachments
  from agent.agent g
       join agent.agent_version v on v.tenant = g.tenant and v.agent = g.name
 where g.tenant = agent.current_tenant() and g.name = %(agent)s
   and (agent_internal.sees_runs() or agent.has_role('developer'))
 order by v.version desc
 limit 100
