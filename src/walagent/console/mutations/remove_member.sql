-- parameters: thread, name
-- Remove a member; of an agent, its turns are cancelled.
select agent.remove_member(%(thread)s::uuid, %(name)s)
