-- role: approver
-- parameters: agent, reason, sqlstate, assignee
-- Say who works on an issue; nobody where the assignee is empty.
insert into agent.issue as i (agent, reason, sqlstate, assignee)
    values (%(agent)s, %(reason)s, %(sqlstate)s, nullif(%(assignee)s, '')::name)
    on conflict (tenant, id) do update set assignee = excluded.assignee, changed_by = excluded.changed_by
returning i.id
