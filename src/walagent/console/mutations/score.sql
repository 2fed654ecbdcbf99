-- role: approver
-- parameters: run, value, comment
-- Say of an ended run how good it was; a second time, instead of the first.
select agent.score(%(run)s::bigint, %(value)s::numeric, nullif(%(comment)s, ''))
