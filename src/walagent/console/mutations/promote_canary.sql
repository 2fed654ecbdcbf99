-- role: developer
-- as: login
-- parameters: name
-- Make the canary or shadow of an attachment its version.
select agent.promote_canary(%(name)s)
