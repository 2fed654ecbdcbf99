-- role: developer
-- as: login
-- parameters: name, reason
-- End the canary or shadow of an attachment.
select agent.roll_back_canary(%(name)s, nullif(%(reason)s, ''))
