-- role: developer
-- parameters: id
-- Withdraw a memory: it is no longer recalled.
select agent.retract(%(id)s::uuid)
