-- role: approver
-- parameters: run, same_version
-- Requeue a failed, dead or cancelled run.
select agent.retry(%(run)s::bigint, %(same_version)s::boolean)
