-- Remove a tool over HTTP that a file registered.
delete from agent.tool t
 where t.name = %(name)s
   and t.kind = 'http'
   and t.source = 'file'
   and t.scope = case when agent_internal.all_tenants() then '' else agent.current_tenant() end
