-- The agents of the tenant, in the form that `apply` compares.
select g.name,
       to_jsonb(g) - '{name,version,updated_at,tenant,model_scope}'::text[] as fields
  from agent.agent g
 where g.tenant = agent.current_tenant()
