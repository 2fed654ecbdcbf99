-- parameters: thread
-- Join a thread whose ID the caller knows.
select agent.join_thread(%(thread)s::uuid)
