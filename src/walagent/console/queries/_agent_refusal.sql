       -- Why the caller may not change the agent, as the triggers of agent.attachment decide it for its login; NULL: it may.
       (select case when not agent.has_role('developer') then 'role'
                    when x.login is null then 'login'
                    when exists (select from agent.attachment o
                                  where o.tenant = g.tenant and o.agent = g.name
                                    and not exists (select from pg_catalog.pg_roles r
                                                     where r.rolname = o.attached_by and pg_has_role(x.login, r.oid, 'member'))
                                    and not exists (select from pg_catalog.pg_class c
                                                     where c.oid = 'agent.attachment'::regclass and pg_has_role(x.login, c.relowner, 'member')))
                    then 'owner' end
          from agent_internal.asking('') x) as refusal,
