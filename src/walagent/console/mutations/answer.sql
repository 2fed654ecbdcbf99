-- role: approver
-- parameters: id, text
-- Answer the question of an agent; its run continues.
select agent.answer(%(id)s::bigint, %(text)s)
