-- role: developer
-- as: login
-- parameters: name
-- Remove an attachment; an agent of its name that no other uses goes with it.
select agent.detach(a.name) from agent.attachment a where a.tenant = agent.current_tenant() and a.name = %(name)s
