-- parameters: thread, text, id
-- Post a text; the same ID has its effect once.
select (agent.post(%(thread)s::uuid, %(text)s, %(id)s::uuid)).number
