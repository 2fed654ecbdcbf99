-- parameters: thread, text, id
-- Post a text, and interrupt the turns that go on; the same ID has its effect once.
select (agent.interrupt(%(thread)s::uuid, %(text)s, %(id)s::uuid)).number
