-- role: admin
-- as: login
-- parameters: name, base
-- Remove a budget, if nobody has changed it since version *base*; runs that wait for it are tried again.
delete from agent.budget b
 where b.tenant = agent.current_tenant() and b.name = %(name)s and b.version = %(base)s::integer
returning b.name
