-- role: developer
-- as: login
-- parameters: name, target, model, system_prompt, tools, ops, condition, columns, writes, bind, approve, run_as, backfill
-- Attach a new agent to a table; one of this name is not replaced.
select agent.attach(
           target => %(target)s::regclass, name => %(name)s, model => %(model)s, system_prompt => %(system_prompt)s,
           tools => array(select jsonb_array_elements_text(%(tools)s::jsonb)),
           ops => array(select jsonb_array_elements_text(%(ops)s::jsonb)), condition => nullif(%(condition)s, ''),
           columns => case when %(columns)s <> '' then array(select jsonb_array_elements_text(nullif(%(columns)s, '')::jsonb)) end,
           writes => array(select jsonb_array_elements_text(%(writes)s::jsonb)), bind => %(bind)s::jsonb,
           approve => array(select jsonb_array_elements_text(%(approve)s::jsonb)), run_as => %(run_as)s,
           backfill => %(backfill)s::boolean)
 where not exists (select from agent.agent g where g.tenant = agent.current_tenant() and g.name = %(name)s)
