-- The tools where `apply` registers them, in the form that it compares.
select t.name,
       to_jsonb(t) - '{name,tenant,scope,version}'::text[] as fields
  from agent.tool t
 where t.scope = case when agent_internal.all_tenants() then '' else agent.current_tenant() end
