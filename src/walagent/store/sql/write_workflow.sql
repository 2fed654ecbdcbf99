-- Create a workflow, or a version of it with the given fields changed.
with given (f) as (
    select coalesce((select jsonb_build_object('edges', '[]'::jsonb, 'exits', '[]'::jsonb) || v.source
                            || jsonb_build_object('max_steps', v.max_steps, 'timeout', extract(epoch from v.timeout), 'run_as', v.run_as)
                       from agent.workflow w
                            join agent.workflow_version v on v.tenant = w.tenant and v.workflow = w.name and v.version = w.version
                      where w.tenant = coalesce(agent.current_tenant(), 'default') and w.name = %(name)s), '{}') || %(fields)s
)
select agent.create_workflow(
           name => %(name)s, nodes => f -> 'nodes', edges => f -> 'edges', entry => f ->> 'entry',
           exits => array(select jsonb_array_elements_text(f -> 'exits')), max_steps => (f ->> 'max_steps')::integer,
           timeout => make_interval(secs => (f ->> 'timeout')::double precision), description => coalesce(f ->> 'description', ''),
           run_as => coalesce((f ->> 'run_as')::name, current_user))
  from given
