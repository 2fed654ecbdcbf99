-- A row, if the tool that the tenant has under this name has the given fields.
select
  from (select t
          from agent.tool t
         where t.name = %(name)s
           and t.scope in ('', case when not agent_internal.all_tenants() then agent.current_tenant() end)
         order by t.scope desc
         limit 1) o
 where o.t is not distinct from jsonb_populate_record(o.t, %(row)s)
