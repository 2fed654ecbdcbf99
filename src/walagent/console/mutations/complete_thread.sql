-- parameters: thread
select agent.complete_thread(%(thread)s::uuid)
