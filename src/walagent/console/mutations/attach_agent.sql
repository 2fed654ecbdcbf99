-- role: developer
-- as: login
-- parameters: name, agent, target, ops, condition, columns, writes, bind, approve, run_as, backfill
-- Attach an agent that exists to another table.
select agent_internal.attach(agent_internal.table_named(%(target)s, agent_internal.schemas_of_caller()), jsonb_build_object(
           'name', %(name)s::text, 'agent', %(agent)s::text,
           'on', %(ops)s::jsonb, 'when', nullif(%(condition)s, ''), 'columns', nullif(%(columns)s, '')::jsonb,
           'writes', %(writes)s::jsonb, 'bind', %(bind)s::jsonb, 'approve', %(approve)s::jsonb, 'run_as', %(run_as)s::text,
           'backfill', %(backfill)s::text), agent_internal.schemas_of_caller())
 where exists (select from agent.agent g where g.tenant = agent.current_tenant() and g.name = %(agent)s)
