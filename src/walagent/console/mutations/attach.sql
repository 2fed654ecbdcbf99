-- role: developer
-- as: login
-- parameters: name, target, model, system_prompt, tools, ops, condition, columns, writes, bind, approve, run_as, backfill
-- Attach a new agent to a table; one of this name is not replaced.
select agent_internal.attach(agent_internal.table_named(%(target)s, agent_internal.schemas_of_caller()), jsonb_build_object(
           'name', %(name)s::text, 'model', %(model)s::text, 'system_prompt', %(system_prompt)s::text, 'tools', %(tools)s::jsonb,
           'on', %(ops)s::jsonb, 'when', nullif(%(condition)s, ''), 'columns', nullif(%(columns)s, '')::jsonb,
           'writes', %(writes)s::jsonb, 'bind', %(bind)s::jsonb, 'approve', %(approve)s::jsonb, 'run_as', %(run_as)s::text,
           'backfill', %(backfill)s::text), agent_internal.schemas_of_caller())
 where not exists (select from agent.agent g where g.tenant = agent.current_tenant() and g.name = %(name)s)
