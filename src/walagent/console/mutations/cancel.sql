-- role: approver
-- parameters: run, reason
-- Cancel a run that has not ended.
select agent.cancel(%(run)s::bigint, nullif(%(reason)s, ''))
