-- parameters: thread
select agent.resume_thread(%(thread)s::uuid)
