-- parameters: thread
select agent.pause_thread(%(thread)s::uuid)
