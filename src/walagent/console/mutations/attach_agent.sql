-- role: developer
-- as: login
-- parameters: name, agent, target, ops, condition, columns, writes, bind, approve, run_as, backfill
-- Attach an agent that exists to another table.
insert into agent.attachment (name, agent, relation, ops, condition, columns, writes, bind, approve, run_as, backfill)
select %(name)s, g.name, %(target)s::regclass, array(select jsonb_array_elements_text(%(ops)s::jsonb)), nullif(%(condition)s, ''),
       case when %(columns)s <> '' then array(select jsonb_array_elements_text(nullif(%(columns)s, '')::jsonb)) end,
       array(select jsonb_array_elements_text(%(writes)s::jsonb)), %(bind)s::jsonb,
       array(select jsonb_array_elements_text(%(approve)s::jsonb)), %(run_as)s, %(backfill)s::boolean
  from agent.agent g
 where g.tenant = agent.current_tenant() and g.name = %(agent)s
returning id
