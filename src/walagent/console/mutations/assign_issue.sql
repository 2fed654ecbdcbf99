-- role: approver
-- parameters: agent, reason, sqlstate, assignee
-- Say who works on an issue; nobody where the assignee is empty.
select agent.assign_issue(%(agent)s, %(reason)s, %(sqlstate)s, nullif(%(assignee)s, '')::name)
