-- role: developer
-- parameters: id, disputed
-- Mark a memory as contradicted, or no longer.
select agent.dispute(%(id)s::uuid, %(disputed)s::boolean)
