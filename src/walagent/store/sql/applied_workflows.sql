-- The newest versions of workflows, in the form that `apply` compares.
select w.name,
       jsonb_build_object('nodes', v.source -> 'nodes', 'edges', coalesce(v.source -> 'edges', '[]'), 'entry', v.source -> 'entry',
                          'exits', coalesce(v.source -> 'exits', '[]'), 'description', w.description, 'max_steps', v.max_steps,
                          'timeout', extract(epoch from v.timeout), 'run_as', v.run_as) as fields
  from agent.workflow w
       join agent.workflow_version v on v.tenant = w.tenant and v.workflow = w.name and v.version = w.version
 where w.tenant = coalesce(agent.current_tenant(), 'default')
