-- The budgets of the tenant, in the form that `apply` compares.
select b.name,
       to_jsonb(b) - '{id,name,version,made_at,tenant}'::text[] as fields
  from agent.budget b
 where b.tenant = agent.current_tenant()
