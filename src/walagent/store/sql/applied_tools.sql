-- The tools of the tenant after those shared by all, in the form that `apply` compares.
select t.name,
       to_jsonb(t) - '{name,tenant,scope,version}'::text[] as fields
  from agent.tool t
 where t.scope in ('', case when not agent_internal.all_tenants() then agent.current_tenant() end)
 order by t.scope
