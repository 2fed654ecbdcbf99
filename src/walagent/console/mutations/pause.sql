-- role: developer
-- as: login
-- parameters: name
-- Let an attachment start no runs.
select agent.pause(%(name)s)
