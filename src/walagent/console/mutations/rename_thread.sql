-- parameters: thread, title
select agent.rename_thread(%(thread)s::uuid, %(title)s)
