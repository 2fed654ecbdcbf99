-- parameters: thread
select agent.leave_thread(%(thread)s::uuid)
