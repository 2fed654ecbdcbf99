-- parameters: thread, name
select agent.add_member(%(thread)s::uuid, %(name)s)
