-- The models of the tenant after those shared by all, in the form that `apply` compares.
select m.name,
       to_jsonb(m) - '{name,tenant,scope}'::text[] as fields
  from agent.model m
 where m.scope in ('', agent.current_tenant())
 order by m.scope
