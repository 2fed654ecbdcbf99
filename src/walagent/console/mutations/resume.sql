-- role: developer
-- as: login
-- parameters: name
-- Let a paused attachment start runs again.
select agent.resume(%(name)s)
