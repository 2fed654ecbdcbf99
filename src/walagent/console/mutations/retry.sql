-- role: approver
-- parameters: run, same_version, fresh
-- Requeue a failed, dead or cancelled run; fresh: the model is shown nothing of the steps before.
select agent.retry(%(run)s::bigint, %(same_version)s::boolean, coalesce(nullif(%(fresh)s, ''), 'false')::boolean)
