-- A row, if a tool of this name has the given fields where it would be registered.
select
  from agent.tool t
 where t.name = %(name)s
   and t.scope = case when agent_internal.all_tenants() then '' else agent.current_tenant() end
   and t is not distinct from jsonb_populate_record(t, %(row)s)
