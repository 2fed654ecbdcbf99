-- role: developer
-- parameters: id
-- Delete a memory and what it replaced.
select agent.forget(%(id)s::uuid)
