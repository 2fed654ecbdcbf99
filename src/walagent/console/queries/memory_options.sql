-- key: name, value
-- What the filter of memories suggests: agents and people that have some.
select distinct o.name, o.value
  from agent.memory m
       cross join lateral (values ('agent', m.agent::text), ('about', m.principal::text)) o (name, value)
 where m.tenant = agent.current_tenant() and o.value is not null and (agent.has_role('viewer') or agent.has_role('developer'))
 order by 1, 2
 limit 500
