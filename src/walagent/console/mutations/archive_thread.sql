-- parameters: thread
select agent.archive_thread(%(thread)s::uuid)
