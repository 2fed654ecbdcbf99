-- role: developer
-- as: login
-- parameters: agent, version
-- Make a version of an agent current again, as a new version.
select agent.rollback(%(agent)s, %(version)s::integer)
