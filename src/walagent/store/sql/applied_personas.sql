-- The personas, in the form that `apply` compares.
select p.name,
       to_jsonb(p) - '{tenant,name,version,updated_at}'::text[] as fields
  from agent.persona p
 where p.tenant = coalesce(agent.current_tenant(), 'default')
